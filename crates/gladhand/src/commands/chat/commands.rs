//! Slash commands: those of the agent, and what a terminal makes of some of them.

use gladhand_dialects::Stop;
use gladhand_wire::RawValue;
use serde_json::{Value, json};

use super::brief;
use super::conversation::{Conversation, Left};
use super::models::{self, For, Models};
use crate::commands::CommandError;

/// What these do here. All others are as the agent describes them.
const OURS: [(&str, &str); 4] = [
    ("/model", "list the models (/model), choose one (/model PROVIDER/ID)"),
    ("/help", "show this"),
    ("/quit", "leave, as Ctrl-D and /exit do"),
    ("Ctrl-C", "stop the answer; when there is none, leave"),
];

impl Conversation {
    /// Runs a slash command. Some: the chat ends with it.
    pub(super) async fn command(&mut self, line: &str) -> Result<Option<Left>, CommandError> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (&*word.to_lowercase(), rest.trim()) {
            ("/quit" | "/exit", _) => return Ok(Some(Left::Willingly)),
            ("/model", "") => {
                let speaker = self.talk.speaker().await;
                let listed = Models::all(&self.talk).await?.list(speaker.as_ref());
                self.screen.report(if listed.is_empty() { models::WAYS } else { &listed })?;
            }
            ("/model", wanted) => {
                models::choose(&self.talk, wanted, For::Good).await?;
                if let Some(speaker) = self.talk.speaker().await {
                    self.screen.note(&format!("{} · {} answers from here on", speaker.model, speaker.provider))?;
                }
            }
            ("/forgeteverything", _) if self.has_person() => {
                let about = "all keys, logins and settings of the agent are forgotten";
                match self.ask(about, "really? [y]es, [n]o: ").await? {
                    Err(stop) => return Ok(Some(Left::Told(stop))),
                    Ok(Some(answer)) if ["y", "yes"].contains(&answer.as_str()) => return self.pass_on(line).await,
                    Ok(_) => {}
                }
            }
            // Whatever is piped in may hold such a line, and there is nobody to ask whether it is meant.
            ("/forgeteverything", _) => {
                self.screen.note("nothing is forgotten where nobody can be asked: use a terminal")?;
            }
            _ => return self.pass_on(line).await,
        }
        Ok(None)
    }

    /// Lets the agent run a command, and shows what came of it.
    async fn pass_on(&mut self, line: &str) -> Result<Option<Left>, CommandError> {
        let said = match self.run(line).await? {
            Ok(said) => serde_json::from_str::<Value>(said.get())?,
            Err(Stop::Interrupted) => return Ok(None),
            Err(stop) => return Ok(Some(Left::Told(stop))),
        };
        if let Some(error) = said.get("error").and_then(Value::as_str) {
            self.screen.complain(error)?;
        } else if said.get("resumed").is_some() {
            self.recall().await?;
        } else {
            let shown = said.get("commands").map_or_else(|| said.clone(), help);
            self.screen.report(&brief::report(&shown))?;
        }
        Ok(None)
    }

    /// Waits for a command of the agent, unless a signal comes first.
    async fn run(&mut self, line: &str) -> Result<Result<Box<RawValue>, Stop>, CommandError> {
        let Self { talk, screen, signals, .. } = self;
        let mut work = std::pin::pin!(talk.command(line));
        loop {
            tokio::select! {
                biased;
                stop = signals.next() => {
                    talk.interrupt().await;
                    return Ok(Err(stop));
                }
                () = talk.heard() => {
                    if let Some(event) = talk.next_event() {
                        screen.event(&event)?;
                    }
                }
                said = &mut work => return Ok(Ok(said?)),
            }
        }
    }
}

/// All commands: the agent's, with what is different here.
fn help(commands: &Value) -> Value {
    let is_ours = |name: &Value| name == "/exit" || OURS.iter().any(|(ours, _)| name == ours);
    let theirs = commands.as_array().into_iter().flatten().filter(|command| !is_ours(&command["name"])).cloned();
    let ours = OURS.iter().map(|(name, description)| json!({"name": name, "description": description}));
    theirs.chain(ours).collect()
}

//! Slash commands: those of the agent, and what a terminal makes of some of them.

use std::future::Future;

use gladhand_core::operations::{AgentCall, Failure};
use gladhand_core::wire::RawValue;
use gladhand_dialects::Stop;
use serde_json::{Value, json};

use super::brief;
use super::conversation::{Conversation, Left, ahead};
use super::models::{self, For, Models};
use super::talk::Talk;
use super::typed::Typed;
use crate::commands::CommandError;

/// Descriptions of the commands that work differently here. All others are as the agent describes them.
const OURS: [(&str, &str); 6] = [
    ("/auth", "who is signed in (/auth); sign in (/auth openai|antigravity); a key (/auth openrouter|exa KEY)"),
    ("/onboarding", "the first steps: the same as /auth, and then /model"),
    ("/model", "list the models (/model), choose one (/model PROVIDER/ID)"),
    ("/help", "show this"),
    ("/quit", "leave, as Ctrl-D and /exit do"),
    ("Ctrl-C", "stop the answer; when there is none, leave"),
];

/// Help on signing in.
const SIGNING_IN: &str = "\
/auth openai, /auth antigravity: sign in with a browser
/auth openrouter KEY, /auth exa KEY: use a key; it is kept encrypted";

impl Conversation {
    /// Runs a slash command. Some: the chat ends with it.
    pub(super) async fn command(&mut self, line: &str) -> Result<Option<Left>, CommandError> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (&*word.to_lowercase(), rest.trim()) {
            ("/quit" | "/exit", _) => return Ok(Some(Left::Willingly)),
            ("/model", "") => {
                let speaker = self.talk.speaker().await;
                let listed = Models::all(&self.talk).await?.list(speaker.as_ref());
                if listed.is_empty() {
                    return Err(super::nobody(&self.talk).await);
                }
                self.screen.report(&listed)?;
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
            // Piped input may contain this line, and there is no user to confirm it.
            ("/forgeteverything", _) => {
                self.screen.note("/forgeteverything asks for confirmation, so it needs a terminal")?;
            }
            ("/auth", "") | ("/onboarding", _) => {
                let status = self.talk.ask(AgentCall::AuthStatus).await?;
                self.screen.report(&brief::report(&serde_json::from_str(status.get())?))?;
                self.screen.note(SIGNING_IN)?;
            }
            ("/auth", wanted) => return self.sign_in(wanted).await,
            _ => return self.pass_on(line).await,
        }
        Ok(None)
    }

    /// Signs in somewhere, or takes a key.
    async fn sign_in(&mut self, wanted: &str) -> Result<Option<Left>, CommandError> {
        let (provider, key) = wanted.split_once(char::is_whitespace).unwrap_or((wanted, ""));
        let asked = match (provider, key.trim()) {
            ("openai", "") => AgentCall::ConnectOpenAi { mode: None, originator: None },
            ("antigravity", "") => AgentCall::ConnectAntigravity,
            ("openrouter", key) if !key.is_empty() => AgentCall::SetOpenRouterKey(key.to_owned().into()),
            ("exa", key) if !key.is_empty() => AgentCall::SetExaKey(key.to_owned().into()),
            _ => {
                self.screen.note(SIGNING_IN)?;
                return Ok(None);
            }
        };
        match self.heard_while(|talk| talk.ask(asked)).await? {
            Ok(_) => self.screen.note("done; /model lists the models that there are now")?,
            Err(Stop::Interrupted) => self.screen.note("given up")?,
            Err(stop) => return Ok(Some(Left::Told(stop))),
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
        } else if let Some(chats) = said.get("sessions").and_then(Value::as_array) {
            self.screen.report(&brief::chats(chats))?;
        } else if said.get("compressed").is_some() {
            self.screen.compressed(&said)?;
        } else {
            let shown = said.get("commands").map_or_else(|| said.clone(), help);
            self.screen.report(&brief::report(&shown))?;
        }
        Ok(None)
    }

    /// Waits for a command of the agent, unless a signal comes first.
    async fn run(&mut self, line: &str) -> Result<Result<Box<RawValue>, Stop>, CommandError> {
        self.heard_while(|talk| talk.command(line)).await
    }

    /// Waits for something, and shows meanwhile what is heard.
    async fn heard_while<'a, Work>(
        &'a mut self,
        work: impl FnOnce(&'a Talk) -> Work,
    ) -> Result<Result<Box<RawValue>, Stop>, CommandError>
    where
        Work: Future<Output = Result<Box<RawValue>, Failure>>,
    {
        let Self { talk, screen, typed, signals } = self;
        let talk = &*talk;
        let mut work = std::pin::pin!(work(talk));
        let said = loop {
            tokio::select! {
                biased;
                stop = signals.next() => {
                    screen.end_turn()?;
                    talk.interrupt().await;
                    return Ok(Err(stop));
                }
                () = talk.heard() => {
                    if let Some(event) = talk.next_event() {
                        screen.event(&event)?;
                    }
                }
                said = &mut work => break said,
                line = ahead(typed.as_mut()) => {
                    let waiting = typed.as_ref().map_or(0, Typed::waiting);
                    screen.typed_ahead(&line, waiting)?;
                }
                () = screen.second() => screen.tick()?,
            }
        };
        // Events from before the end of the command are shown before its result.
        while let Some(event) = talk.next_event() {
            screen.event(&event)?;
        }
        screen.end_turn()?;
        Ok(Ok(said?))
    }
}

/// All commands: the agent's, with what is different here.
fn help(commands: &Value) -> Value {
    let is_ours = |name: &Value| name == "/exit" || OURS.iter().any(|(ours, _)| name == ours);
    let theirs = commands.as_array().into_iter().flatten().filter(|command| !is_ours(&command["name"])).cloned();
    let ours = OURS.iter().map(|(name, description)| json!({"name": name, "description": description}));
    theirs.chain(ours).collect()
}

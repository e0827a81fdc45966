//! `gladhand chat`: a conversation with the agent of this process, in a terminal, a pipe or a script.
//!
//! The agent is the one that `gladhand serve` has, with the tools of the same configuration. Answers go to stdout, as they
//! come; tools, questions and everything else go to stderr.

mod brief;
mod commands;
mod conversation;
#[cfg(unix)]
mod editor;
mod ink;
mod inline;
mod markdown;
mod models;
mod pane;
mod screen;
mod status;
mod talk;
pub(super) mod typed;

use std::io::IsTerminal as _;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueHint};
use gladhand_agent::accounts::Provider;
use gladhand_core::operations::AgentCall;
use gladhand_hub::Hub;
use gladhand_models::{ModelError, alternatives};

use crate::commands::serve::{Assembly, ListWaits, Reached};
use crate::commands::shared::arguments::WhoApproves;
use crate::commands::shared::runtime::wait_for;
use crate::commands::shared::settings::{self, Part, Settings};
use crate::commands::{CommandError, is_gone};
use crate::config::{self, env};
use crate::exit::Exit;
use crate::policy_setup;
use conversation::{Conversation, Ended, Left};
use gladhand_server::Service;
use gladhand_server::signals::{self, Signals};
use models::For;
use screen::{Form, Screen};
use talk::Talk;
use typed::Typed;

pub(super) use models::ways;

fn chat_help() -> String {
    const HELP: &str = "\
The agent has its own tools and the tools of configured servers. It asks before
it runs a tool that may do harm. In a script, such tools are refused unless
--approve all is set. Answers go to stdout, everything else to stderr.

Ctrl-C stops the answer, Ctrl-D leaves, and /help lists the commands. A line
that ends with a backslash continues on the next line. Lines pasted together
are one message. The arrow keys show earlier messages, and Ctrl-R searches
them.

Examples:
  gladhand chat
  gladhand chat --resume
  gladhand chat --model openrouter/openai/gpt-5 --folder ~/project
  gladhand chat -p 'What does this folder contain?'
  git diff | gladhand chat -p - --json

Models: set KEYS, or run an
SERVERS server on this machine. Builds with the feature local-model
have a small offline model (`local`, after `cargo xtask model`).";
    let (keys, servers) = (alternatives(&Provider::key_variables()), alternatives(&Provider::local_servers()));
    HELP.replace("KEYS", &keys).replace("SERVERS", &servers)
}

/// Options of `chat`.
#[derive(Debug, Args)]
#[command(after_help = chat_help())]
pub struct ChatArgs {
    /// Print the answer to this question and exit; `-` reads it from standard input.
    #[arg(short, long, value_name = "QUESTION", allow_hyphen_values = true)]
    pub print: Option<String>,
    /// Continue a saved chat, by its id or a prefix of it [default: the last one].
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last")]
    pub resume: Option<String>,
    /// Model for this chat: PROVIDER/ID, or a provider such as `local`.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Who approves tools of the agent that may do harm [default: ask].
    #[arg(long, value_name = "WHOM")]
    pub approve: Option<WhoApproves>,
    /// Working folder of the tools [default: the current folder].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
    /// Print every event as a line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Configuration file [default: your own, and ./gladhand.toml if you trust it].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "DIR", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
}

/// A question that is longer is cut: no model takes more.
const LONGEST: u64 = 16 * 1024 * 1024;
/// How long upstreams are waited for at the start.
const SETTLING: Duration = Duration::from_secs(10);

/// The hint for a model that was set up and gives no answer.
const DOCTOR: &str = "`gladhand doctor` shows which model is asked, and where its key comes from";

/// Chats until the user leaves, or until the one question is answered.
pub fn run(args: &ChatArgs) -> Result<ExitCode, CommandError> {
    let data = config::data_dir(args.data_dir.as_deref());
    let loaded = settings::load(args.config.as_deref(), data.as_deref(), Part::Whole, settings::note);
    let Settings { mut config, layers } = loaded.map_err(CommandError::usage)?;
    settings::note_skills(data.as_deref());
    if let Some(approve) = args.approve {
        config.agent.approve = approve.into();
    }
    if !config.agent.enabled {
        return Err(CommandError::usage(anyhow!("the configuration has no agent")).hint("set `enabled` of [agent]"));
    }
    // If no thread can be started, the next start removes them.
    let _ = std::thread::Builder::new().spawn(gladhand_agent_tools::remove_leftovers);
    let waits = ListWaits::default();
    let Assembly { hub, .. } = Assembly::of(&mut config, &layers, data.as_deref(), Reached::Here, waits);
    if hub.agent().is_none() {
        return Err(
            CommandError::usage(anyhow!("there is no data folder to keep chats in")).hint("name one: --data-dir")
        );
    }
    let (_, _policy) = policy_setup::govern(Service::new(hub.clone()), &config, data.as_deref())?;
    let question = args.print.as_deref().map(question).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = wait_for(&runtime, async {
        let ended = chat(args, question.as_deref(), &hub).await;
        let mut signals = Signals::listen()?;
        tokio::select! {
            () = hub.closed() => ended,
            stop = signals.next() => Ok(ExitCode::from(signals::exit_status(stop))),
        }
    });
    // The thread that reads the terminal cannot be stopped, and its input is not needed any more.
    runtime.shutdown_background();
    match ended {
        // The reader of our output has closed the pipe.
        Err(error) if is_gone(&error) => Ok(Exit::Success.into()),
        ended => ended,
    }
}

async fn chat(args: &ChatArgs, question: Option<&str>, hub: &Hub) -> Result<ExitCode, CommandError> {
    let mut signals = Signals::listen()?;
    let form = match question {
        _ if args.json => Form::Json,
        Some(_) => Form::Answer,
        None => Form::Chat,
    };
    let folder = args.folder.as_ref().map(fs_err::canonicalize).transpose().map_err(CommandError::usage)?;
    let folder = folder.map(|folder| folder.into_os_string().into_string());
    let folder = folder.transpose().map_err(|_| CommandError::usage(anyhow!("the path of the folder is not UTF-8")))?;
    // A model receives the tools that are known when it is called, so upstreams get a moment to list theirs.
    let settled = tokio::time::timeout(SETTLING, hub.settled());
    let talk = tokio::select! {
        stop = signals.next() => return Ok(ExitCode::from(signals::exit_status(stop))),
        (talk, _) = async { tokio::join!(Talk::begin(hub.clone(), folder.as_deref()), settled) } => talk?,
    };
    let screen = Screen::new(form);
    let typed = question.is_none().then(|| typed(args, &screen)).transpose()?;
    let mut conversation = Conversation { talk, screen, typed, signals };
    if let Some(which) = &args.resume {
        conversation.talk.command(&format!("/history {which}")).await.map_err(CommandError::usage)?;
        if question.is_none() {
            conversation.recall().await?;
        }
    }
    if let Some(wanted) = &args.model {
        models::choose(&conversation.talk, wanted, For::Now).await?;
    }
    match question {
        Some(question) => answer(&mut conversation, question).await,
        None => hold(&mut conversation, args.json).await,
    }
}

/// Begins to read what a person types, with line editing where the terminal can show it.
fn typed(args: &ChatArgs, screen: &Screen) -> std::io::Result<Typed> {
    #[cfg(unix)]
    if std::io::stdin().is_terminal() && screen.can_edit() {
        return Typed::with_editor(crate::terminal::line_history::History::of_chats(config::data_dir(
            args.data_dir.as_deref(),
        )));
    }
    #[cfg(not(unix))]
    let _ = (args, screen);
    Typed::start()
}

/// Has one question answered.
async fn answer(conversation: &mut Conversation, question: &str) -> Result<ExitCode, CommandError> {
    let Some(speaker) = conversation.talk.speaker().await else { return Err(nobody(&conversation.talk).await) };
    match conversation.turn(question).await? {
        Ended::Answered => Ok(Exit::Success.into()),
        Ended::Interrupted => Ok(ExitCode::from(signals::exit_status(gladhand_dialects::Stop::Interrupted))),
        Ended::Failed(why) if why == ModelError::Unreachable.to_string() => {
            let provider = Provider::of_id(&speaker.provider).map_or(&*speaker.provider, |provider| provider.name);
            Err(failed(format!("{provider} unreachable")))
        }
        Ended::Failed(why) => Err(CommandError::new(Exit::CallFailed, anyhow!(why))),
        Ended::Left(stop) => Ok(ExitCode::from(signals::exit_status(stop))),
    }
}

/// Chats with the user or the program on standard input.
async fn hold(conversation: &mut Conversation, as_json: bool) -> Result<ExitCode, CommandError> {
    if conversation.has_person() {
        conversation.talk.ask(AgentCall::CanApprove).await?;
        match conversation.talk.speaker().await {
            Some(speaker) => {
                let hello = format!("{} · {} · /help, Ctrl-D leaves", speaker.model, speaker.provider);
                conversation.screen.note(&hello)?;
            }
            None => {
                let note = match conversation.talk.trouble().await {
                    Some(why) => format!("{why}; {DOCTOR}"),
                    None => format!("there is no model to talk to; {}", ways()),
                };
                conversation.screen.note(&note)?;
            }
        }
    } else if conversation.talk.speaker().await.is_none() {
        return Err(nobody(&conversation.talk).await);
    }
    let left = conversation.hold().await?;
    conversation.screen.refresh()?;
    Ok(match left {
        Left::Willingly => Exit::Success.into(),
        Left::AfterFailure if as_json => {
            return Err(CommandError::new(Exit::CallFailed, anyhow!("the last question has no answer")));
        }
        Left::AfterFailure => Exit::CallFailed.into(),
        Left::Told(stop) => ExitCode::from(signals::exit_status(stop)),
    })
}

/// Why there is no answer: there is no model, or the configured one cannot be reached.
async fn nobody(talk: &Talk) -> CommandError {
    match talk.trouble().await {
        Some(trouble) => failed(trouble),
        None => CommandError::usage(anyhow!("there is no model to ask")).hint(ways()),
    }
}

/// The model that was set up gives no answer, for this reason.
fn failed(why: String) -> CommandError {
    CommandError::new(Exit::CallFailed, anyhow!(why)).hint(DOCTOR)
}

/// The question, or what standard input asks.
fn question(said: &str) -> Result<String, CommandError> {
    let mut question = said.to_owned();
    if said == "-" {
        question.clear();
        let mut input = std::io::stdin().lock().take(LONGEST);
        input.read_to_string(&mut question).context("the question could not be read").map_err(CommandError::usage)?;
    }
    match question.trim() {
        "" => Err(CommandError::usage(anyhow!("the question is empty"))),
        question => Ok(question.to_owned()),
    }
}

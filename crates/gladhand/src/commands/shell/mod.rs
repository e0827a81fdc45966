//! `gladhand shell`: one session with a server that stays open, with a command per line.

mod completion;
mod input;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::anyhow;
use clap::{Args, ValueHint};
use gladhand_client::upstream::Upstream;
use gladhand_core::operations::{CompletionCall, CompletionOf, Operation, Reply};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::Stop;
use gladhand_server::signals::{self, Signals};
use gladhand_session::tap::Tap;
use serde_json::json;

use crate::commands::call::{self, person::Person};
use crate::commands::list;
use crate::commands::record::not_recorded;
use crate::commands::shared::arguments::ServerArgs;
use crate::commands::shared::opened_server::{AskedServer, Plan};
use crate::commands::{Audience, CommandError, complain, note, print_data};
use crate::config;
use crate::exit::Exit;
use crate::recorder::tapped::TapRecording;
use crate::recorder::{Existing, FileRecorder, MAX_MIB, Masks};
use crate::terminal::line_history::History;
use crate::terminal::text::{counted, plain};

use completion::Known;
use input::{Input, Lines};

const SHELL_HELP: &str = "\
Opens one session and keeps it open. Each line is a command; `help` lists them.
Tab completes names and arguments from the lists and schemas of the server, and
the arrow keys recall earlier lines. Ctrl-C cancels a running call, Ctrl-D ends.
Commands may come from a pipe: the first one that fails ends the session, and
its exit code is that of `gladhand shell`.

Examples:
  gladhand shell -- npx -y @modelcontextprotocol/server-everything stdio
  gladhand shell https://example.org/mcp
  printf 'tools\\ncall echo message=hi\\n' | gladhand shell -- my-server";

/// The commands: name, arguments and effect.
const COMMANDS: [(&str, &str, &str); 11] = [
    ("tools", "[NAME]", "List the tools, or show the arguments of one."),
    ("call", "NAME [KEY=VALUE …]", "Call a tool."),
    ("resources", "", "List the resources and templates."),
    ("read", "URI", "Print the content of a resource."),
    ("prompts", "", "List the prompts."),
    ("get", "NAME [KEY=VALUE …]", "Print a prompt."),
    ("complete", "NAME|TEMPLATE ARGUMENT [TEXT]", "Ask the server for values of an argument."),
    ("record", "[FILE]", "Record the messages from now on; without a file, stop."),
    ("help", "", "List the commands."),
    ("quit", "", "End the session."),
    ("exit", "", "The same."),
];

/// Options of `shell`.
#[derive(Debug, Args)]
#[command(after_help = SHELL_HELP)]
pub struct ShellArgs {
    /// URL of the server, unless a command follows.
    pub url: Option<String>,
    /// Save images and other media into this folder.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub save: PathBuf,
    /// Folder to name as a root if the server asks for roots; may be repeated.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Vec<PathBuf>,
    /// Which server, and how.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Opens a session, and runs commands until the end of input.
pub fn run(args: ShellArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let mut plan = Plan::read(&args.server, args.url.as_deref())?;
    let roots = args.root.iter().map(fs_err::canonicalize).collect::<Result<_, _>>();
    let person = plan.for_person(Person::new(roots.map_err(CommandError::usage)?, verbosity));
    plan.note_unavailable();
    plan.leave_signals_to_work();
    let (asked, shown, tap) = (plan.asked(), plan.shown(), Arc::clone(&plan.options.tap));
    let history = History::of_shells(config::data_dir(args.server.data_dir.as_deref()));
    plan.run(Some(Arc::clone(&person)), |upstream| async move {
        let known = Arc::<Mutex<Known>>::default();
        let mut lines = Lines::start(Arc::clone(&known), history)?;
        let (save, as_json) = (args.save.clone(), args.server.json);
        let mut shell = Shell { upstream, person, asked, shown, tap, save, as_json, known, recording: None };
        let is_person = lines.is_person;
        if is_person {
            shell.greet().await;
        }
        let mut signals = Signals::listen()?;
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                stop = signals.next() => return Ok(signals::exit_status(stop).into()),
            };
            let line = match line {
                Input::Line(line) => line,
                Input::Interrupted => continue,
                Input::TooLong => return Err(CommandError::usage(anyhow!("a command has more than 1 MiB"))),
                Input::End => return Ok(Exit::Success.into()),
            };
            let ended = tokio::select! {
                ended = shell.run(&line) => ended,
                stop = signals.next() => match stop {
                    // The call that was running is cancelled.
                    Stop::Interrupted if is_person => {
                        note("cancelled");
                        continue;
                    }
                    stop => return Ok(signals::exit_status(stop).into()),
                },
            };
            let failed = match ended {
                Ok(Next::Quit) => return Ok(Exit::Success.into()),
                Ok(Next::Line(code)) => (code != Exit::Success.into()).then_some(code),
                Err(error) if is_person => {
                    complain(&error, Audience::Person);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(code) = failed.filter(|_| !is_person) {
                return Ok(code);
            }
        }
    })
}

/// What follows a command.
enum Next {
    /// Another line. The command ended in this way.
    Line(ExitCode),
    Quit,
}

struct Shell {
    upstream: Upstream,
    person: Arc<Person>,
    asked: AskedServer,
    /// The server, as it is typed behind a command.
    shown: String,
    tap: Arc<Tap>,
    save: PathBuf,
    as_json: bool,
    known: Arc<Mutex<Known>>,
    recording: Option<(PathBuf, TapRecording)>,
}

impl Shell {
    /// Learns what can be completed, and says what the server has. A list that fails is empty here; its command says why.
    async fn greet(&mut self) {
        let list = |operation| self.upstream.call(operation);
        let lists = async {
            (
                list(Operation::ListTools).await,
                list(Operation::ListPrompts).await,
                list(Operation::ListResources).await,
                list(Operation::ListTemplates).await,
            )
        };
        let (tools, prompts, resources, templates) = self.person.waiting("listing what the server has", lists).await;
        let mut counts = Vec::new();
        {
            let mut known = self.known.lock().unpoisoned();
            if let Ok(Reply::Tools(tools)) = &tools {
                known.set_tools(tools);
                counts.push(counted(tools.len(), "tool"));
            }
            if let Ok(Reply::Prompts(prompts)) = &prompts {
                known.set_prompts(prompts);
                counts.push(counted(prompts.len(), "prompt"));
            }
            if let (Ok(Reply::Resources(resources)), Ok(Reply::Templates(templates))) = (&resources, &templates) {
                known.set_resources(resources, templates);
                counts.push(counted(resources.len() + templates.len(), "resource"));
            }
        }
        self.person.release_logs().iter().for_each(|line| self.person.say(line));
        note(&format!("{}; `help` lists the commands", counts.join(", ")));
    }

    /// Runs one line.
    async fn run(&mut self, line: &str) -> Result<Next, CommandError> {
        let words = words::words(line).map_err(CommandError::usage)?;
        let Some((command, arguments)) = words.split_first() else { return Ok(Next::Line(Exit::Success.into())) };
        if command.starts_with('#') {
            return Ok(Next::Line(Exit::Success.into()));
        }
        let (upstream, person) = (&self.upstream, &self.person);
        let ended = match (command.as_str(), arguments) {
            ("tools", []) => {
                let ended = list::list_tools(upstream, person, self.as_json).await;
                self.learn_tools().await;
                ended
            }
            ("tools", [name]) => {
                let tool = call::find(upstream, person, name, &self.asked).await?;
                call::print_help(&tool, &self.shown).map(|()| Exit::Success.into())
            }
            ("call", [name, words @ ..]) => self.call(name, words).await,
            ("resources", []) => list::list_resources(upstream, person, self.as_json).await,
            ("read", [uri]) => list::read_resource(upstream, person, uri, &self.save, self.as_json).await,
            ("prompts", []) => list::list_prompts(upstream, person, self.as_json).await,
            ("get", [name, words @ ..]) => {
                let given = list::prompt_arguments(words).map_err(|at| not_an_argument(&words[at]))?;
                let (asked, save) = (&self.asked, &self.save);
                list::get_prompt(upstream, person, asked, name, &given, save, self.as_json).await
            }
            ("complete", [of, argument]) => self.complete(of, argument, "").await,
            ("complete", [of, argument, text]) => self.complete(of, argument, text).await,
            ("record", []) => self.stop_recording(),
            ("record", [file]) => self.record(Path::new(file)),
            ("help", _) => help(),
            ("quit" | "exit", []) => return Ok(Next::Quit),
            (name, _) => Err(wrong(name)),
        };
        ended.map(Next::Line)
    }

    async fn learn_tools(&self) {
        // The list was requested a moment ago, so the server has answered before.
        if let Ok(Reply::Tools(tools)) = self.upstream.call(Operation::ListTools).await {
            self.known.lock().unpoisoned().set_tools(&tools);
        }
    }

    async fn call(&self, name: &str, words: &[String]) -> Result<ExitCode, CommandError> {
        if let Some(word) = words.iter().find(|word| !word.contains('=')) {
            return Err(not_an_argument(word));
        }
        let tool = call::find(&self.upstream, &self.person, name, &self.asked).await?;
        let arguments = call::read_arguments(&tool, None, words)
            .map_err(|error| CommandError::usage(error).hint(format!("`tools {}` shows what it takes", plain(name))))?;
        call::call(&self.upstream, &self.person, &tool, &arguments, &self.save, self.as_json).await
    }

    /// Asks for values of an argument of a prompt, or of a variable of a template.
    async fn complete(&self, of: &str, argument: &str, text: &str) -> Result<ExitCode, CommandError> {
        let of = match of.contains('{') {
            true => CompletionOf::Template(of.into()),
            false => CompletionOf::Prompt(of.into()),
        };
        let call = CompletionCall { of, argument: argument.into(), value: text.into(), context: None };
        let reply = list::ask(&self.upstream, &self.person, "asking for values", Operation::Complete(call)).await?;
        let Reply::Completion(completion) = reply else { return Err(list::mixed_up()) };
        if self.as_json {
            return list::print_json(&json!({ "values": completion.values }));
        }
        if completion.values.is_empty() {
            note("the server suggests no value");
        }
        let lines: String = completion.values.iter().map(|value| format!("{}\n", plain(value))).collect();
        print_data(&lines).map(|()| Exit::Success.into())
    }

    fn record(&mut self, file: &Path) -> Result<ExitCode, CommandError> {
        if let Some((file, _)) = &self.recording {
            let error = anyhow!("recording to {} already", file.display());
            return Err(CommandError::usage(error).hint("`record` without a file stops"));
        }
        let command: Vec<_> = self.shown.split(' ').map(str::to_owned).collect();
        let recorder = FileRecorder::begin(file, Existing::Refuse, &command, MAX_MIB, Masks::default());
        let recorder = recorder.map_err(|error| not_recorded(error).hint("name another file"))?;
        let recording = TapRecording::start(&self.tap, recorder)?;
        note(&format!("recording to {}", file.display()));
        self.recording = Some((file.to_owned(), recording));
        Ok(Exit::Success.into())
    }

    fn stop_recording(&mut self) -> Result<ExitCode, CommandError> {
        let Some((file, recording)) = self.recording.take() else {
            return Err(CommandError::usage(anyhow!("nothing is recorded")).hint("`record FILE` begins"));
        };
        // Waits for the last entries.
        drop(recording);
        note(&format!("recorded to {}", file.display()));
        Ok(Exit::Success.into())
    }
}

fn help() -> Result<ExitCode, CommandError> {
    let usage = |name: &str, arguments: &str| format!("{name} {arguments}").trim_end().to_owned();
    let width = COMMANDS.iter().map(|(name, arguments, _)| usage(name, arguments).chars().count()).max().unwrap_or(0);
    let line =
        |(name, arguments, effect): &(&str, &str, &str)| format!("{:width$}  {effect}\n", usage(name, arguments));
    print_data(&COMMANDS.iter().map(line).collect::<String>()).map(|()| Exit::Success.into())
}

/// The error of a line that is no command.
fn wrong(name: &str) -> CommandError {
    match COMMANDS.iter().find(|(known, ..)| *known == name) {
        Some((_, arguments, _)) => {
            let usage = format!("{name} {arguments}");
            CommandError::usage(anyhow!("wrong arguments of `{name}`")).hint(format!("write: {}", usage.trim_end()))
        }
        None => {
            let error = CommandError::usage(anyhow!("no command is called `{}`", plain(name)));
            let known = COMMANDS.iter().map(|(name, ..)| *name);
            match config::spelling::nearest(name, known) {
                Some(nearest) => error.hint(format!("did you mean `{nearest}`?")),
                None => error.hint("`help` lists the commands"),
            }
        }
    }
}

fn not_an_argument(word: &str) -> CommandError {
    let error = anyhow!("`{}` is no argument", plain(word));
    CommandError::usage(error).hint("arguments are written as key=value, or key:=JSON for a tool")
}

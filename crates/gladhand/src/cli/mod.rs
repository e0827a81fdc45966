//! The command line: one definition for parsing, help, completions and the man page.

mod separator;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ContextKind;
use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches, Parser, Subcommand, ValueHint};

use crate::commands::Audience;
use crate::commands::bridge::BridgeArgs;
use crate::commands::call::CallArgs;
use crate::commands::chat::ChatArgs;
use crate::commands::check::CheckArgs;
use crate::commands::config::ConfigArgs;
use crate::commands::console::ConsoleArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::list::{PromptsArgs, ResourcesArgs, ToolsArgs};
use crate::commands::login::{LoginArgs, LogoutArgs};
use crate::commands::loss::LossArgs;
use crate::commands::open::OpenArgs;
use crate::commands::policy::PolicyArgs;
use crate::commands::probe::ProbeArgs;
#[cfg(unix)]
use crate::commands::ps::PsArgs;
#[cfg(unix)]
use crate::commands::record::RecordArgs;
use crate::commands::replay::ReplayArgs;
use crate::commands::repo::RepoArgs;
use crate::commands::secret::SecretArgs;
use crate::commands::serve::ServeArgs;
#[cfg(unix)]
use crate::commands::shell::ShellArgs;
use crate::commands::show::ShowArgs;
#[cfg(unix)]
use crate::commands::tap::TapArgs;
#[cfg(unix)]
use crate::commands::top::TopArgs;
use crate::logging::LogFormat;

/// No line of help is wider, so that examples are not broken on any usual terminal.
const WIDTH: usize = 80;

const AFTER_HELP: &str = "\
Examples:
  gladhand open --as mcp@2025-06-18     show a handshake with Gladhand itself
  gladhand open --as mcp -- npx server  show the handshake of a server
  gladhand tools -- npx server          list its tools
  gladhand call echo message=hi http://localhost:8080/mcp
  gladhand chat                         talk to a model that can use your tools
  gladhand serve                        serve one client on stdin and stdout
  gladhand serve --http 127.0.0.1:8080  serve any number of clients over HTTP
  gladhand config import --write        import servers from your editor
  gladhand doctor                       check your setup
  printf '{\"type\":\"handshake\",\"id\":\"1\"}\\n' | gladhand serve

Exit codes: 0 success, 1 failure of files, network or system, 2 wrong usage or
configuration, 3 refused by the peer, 4 failure of the peer, 5 failed call.";

/// Connects any agent client to any tool server, and enforces what the two agreed.
///
/// Gladhand speaks four dialects, as server and as client: MCP (all five revisions), A2E 1.0,
/// loaf RPC 1.0.0 and Fluxloop. The client's first line selects the dialect.
#[derive(Debug, Parser)]
#[command(name = "gladhand", version, after_help = AFTER_HELP, propagate_version = true, max_term_width = WIDTH)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Options of all commands.
    #[command(flatten)]
    pub global: Global,
    /// Who reads the report, and hears of failures.
    #[arg(skip = Audience::Person)]
    pub audience: Audience,
}

/// A command line that cannot be read, or that asks for help.
#[derive(Debug)]
pub struct Misuse {
    /// The error of clap.
    pub error: clap::Error,
    /// A hint in addition to those of clap.
    pub hint: Option<String>,
    /// Who is told.
    pub audience: Audience,
}

impl Misuse {
    fn new(mut error: clap::Error, words: &[OsString]) -> Self {
        let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let argument = separator::explain_argument(&error, &Cli::command(), &texts);
        if argument.is_some() {
            // It would suggest an option that is not meant.
            error.remove(ContextKind::SuggestedArg);
            error.remove(ContextKind::Suggested);
        }
        let hint = argument.or_else(|| separator::explain(&error, &Cli::command(), &texts));
        if hint.is_some() {
            // They would put the `--` elsewhere.
            error.remove(ContextKind::TrailingArg);
            error.remove(ContextKind::Suggested);
        }
        Self { error, hint, audience: audience_of_misuse(words) }
    }
}

impl Cli {
    /// Reads the command line of this process.
    ///
    /// Hosts start `serve` and `bridge` often and wait for them, so for these only that one command is built. If it cannot
    /// parse the command line, the whole tree is built.
    pub fn read() -> Result<Self, Misuse> {
        let first = std::env::args_os().nth(1);
        let quickly = match first.as_ref().and_then(|word| word.to_str()) {
            Some("serve") => Self::quickly(std::env::args_os(), "serve", Command::Serve),
            Some("bridge") => Self::quickly(std::env::args_os(), "bridge", Command::Bridge),
            #[cfg(unix)]
            Some("record") => Self::quickly(std::env::args_os(), "record", Command::Record),
            _ => None,
        };
        match quickly {
            Some(cli) => Ok(cli),
            None => Self::whole(&std::env::args_os().collect::<Vec<_>>()),
        }
    }

    fn whole(words: &[OsString]) -> Result<Self, Misuse> {
        let mut tree = Self::command();
        let read = tree.try_get_matches_from_mut(words).and_then(|said| {
            let cli = Self::from_arg_matches(&said).map_err(|error| error.format(&mut tree))?;
            Ok(Self { audience: audience_of(&said), ..cli })
        });
        read.map_err(|error| Misuse::new(error, words))
    }

    fn quickly<A: Args>(
        words: impl Iterator<Item = OsString>,
        name: &'static str,
        command: fn(A) -> Command,
    ) -> Option<Self> {
        let root = clap::Command::new("gladhand").subcommand(A::augment_args(clap::Command::new(name)));
        let said = Global::augment_args(root).try_get_matches_from(words).ok()?;
        let own = A::from_arg_matches(said.subcommand_matches(name)?).ok()?;
        let global = Global::from_arg_matches(&said).ok()?;
        Some(Self { command: command(own), global, audience: Audience::Person })
    }
}

/// The id of the flag `--json`, which is the same in every command that has it.
const JSON: &str = "json";

/// Whether the command that is named asks for JSON.
fn audience_of(said: &ArgMatches) -> Audience {
    match said.subcommand() {
        Some((_, below)) => audience_of(below),
        None if matches!(said.try_get_one(JSON), Ok(Some(true))) => Audience::Program,
        None => Audience::Person,
    }
}

/// The same for a command line that cannot be read. The stdout of a command without the flag belongs to others: peers, shells.
fn audience_of_misuse(words: &[OsString]) -> Audience {
    let words = words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
    let (mut root, mut asks) = (Cli::command(), false);
    root.build();
    let mut named = &root;
    for word in words.skip(1) {
        asks |= word == "--json";
        named = named.find_subcommand(word).unwrap_or(named);
    }
    let may_ask = named.has_subcommands() || named.get_arguments().any(|argument| argument.get_id() == JSON);
    if asks && may_ask { Audience::Program } else { Audience::Person }
}

/// Options of all commands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for all commands")]
pub struct Global {
    /// Log more on stderr: -v events, -vv details, -vvv the size of each line.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Log less: -q errors only, -qq nothing.
    #[arg(short, long, action = clap::ArgAction::Count, global = true, conflicts_with = "verbose")]
    pub quiet: u8,
    /// Format of log lines.
    #[arg(long, value_enum, default_value = "human", global = true)]
    pub log_format: LogFormat,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve one client on stdin and stdout, or any number over HTTP.
    Serve(ServeArgs),
    /// Connect clients of any dialect to one server, on stdin and stdout or over HTTP.
    Bridge(BridgeArgs),
    /// Run a server command, and record what passes between it and its client.
    #[cfg(unix)]
    Record(RecordArgs),
    /// Open a session with a server, and show the handshake.
    Open(OpenArgs),
    /// Find out what a server is: versions, lists, timing, oddities, configuration.
    Probe(ProbeArgs),
    /// Judge a server or a client by the rules of its dialects.
    Check(CheckArgs),
    /// Show what clients lose and gain with a server through the bridge.
    Loss(LossArgs),
    /// Call a tool of a server.
    Call(CallArgs),
    /// Keep one session with a server open, and run commands in it.
    #[cfg(unix)]
    Shell(ShellArgs),
    /// Show the messages of a recording.
    Show(ShowArgs),
    /// Show the messages of a running Gladhand process live.
    #[cfg(unix)]
    Tap(TapArgs),
    /// Show a recording as a page in the browser.
    Console(ConsoleArgs),
    /// Play a recorded client against a server, or a recorded server to a client.
    Replay(ReplayArgs),
    /// Chat with a model that can use your tools, in the terminal or from a script.
    Chat(ChatArgs),
    /// List the tools of a server.
    Tools(ToolsArgs),
    /// List the resources of a server, or read one.
    Resources(ResourcesArgs),
    /// List the prompts of a server, or get one.
    Prompts(PromptsArgs),
    /// Check, show or import configuration; install Gladhand into other programs.
    Config(ConfigArgs),
    /// Check the configuration, upstreams and this machine, and suggest fixes.
    Doctor(DoctorArgs),
    /// Show running Gladhand processes with their sessions and upstreams.
    #[cfg(unix)]
    Ps(PsArgs),
    /// Watch sessions, upstreams, calls and latencies of running Gladhand processes.
    #[cfg(unix)]
    Top(TopArgs),
    /// Analyse a repository: languages, frameworks, documentation, integration plans.
    Repo(RepoArgs),
    /// Manage secrets, encrypted on this machine.
    Secret(SecretArgs),
    /// Sign in to a server before its first use.
    Login(LoginArgs),
    /// Sign out of a server, and delete its tokens.
    Logout(LogoutArgs),
    /// Explain how policy decides a call; approve tools that changed.
    Policy(PolicyArgs),
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page per command into a folder.
    #[command(after_help = MAN_HELP)]
    Man {
        /// The folder to write into.
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}

const COMPLETIONS_HELP: &str = "\
Examples:
  gladhand completions bash \\
    > ~/.local/share/bash-completion/completions/gladhand
  gladhand completions fish > ~/.config/fish/completions/gladhand.fish";

const MAN_HELP: &str = "\
Examples:
  gladhand man | man -l -
  gladhand man --out ~/.local/share/man/man1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_command_line_parser_agrees_with_the_full_one() {
        for line in [
            "gladhand serve",
            "gladhand serve -vv --http 127.0.0.1:0 --http unix:/x --dialect mcp --log-format json",
            "gladhand serve --config a.toml -q",
            "gladhand bridge -v -- npx server -x --flag",
            "gladhand bridge http://localhost:1/mcp",
        ] {
            let words = || line.split(' ').map(OsString::from);
            let quickly = match line.split(' ').nth(1) {
                Some("serve") => Cli::quickly(words(), "serve", Command::Serve),
                _ => Cli::quickly(words(), "bridge", Command::Bridge),
            };
            let whole = Cli::try_parse_from(words()).unwrap();
            assert_eq!(format!("{:?}", quickly.unwrap()), format!("{whole:?}"), "{line}");
        }
        for line in
            ["gladhand serve --help", "gladhand serve --version", "gladhand serve --nonsense", "gladhand -v serve x"]
        {
            let words = line.split(' ').map(OsString::from);
            assert!(Cli::quickly(words, "serve", Command::Serve).is_none(), "{line}");
        }
    }
}

//! The command line: one definition for parsing, help, completions and the man page.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ContextKind;
use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches, Parser, Subcommand, ValueHint};

use crate::cli_separator;
use crate::commands::Audience;
use crate::config::{Approve, env};
use crate::logging::LogFormat;
use gladhand_client::upstream::Speak;
use gladhand_server::http::Address;

/// No line of help is wider, so that examples are not broken on any usual terminal.
const WIDTH: usize = 80;

const AFTER_HELP: &str = "\
Examples:
  gladhand open --as mcp@2025-06-18     look at a handshake with gladhand itself
  gladhand open --as mcp -- npx server  does this server open, and with what?
  gladhand tools -- npx server          what can it do?
  gladhand call echo message=hi http://localhost:8080/mcp
  gladhand chat                         talk to a model that has your tools
  gladhand serve                        serve one peer on stdin and stdout
  gladhand serve --http 127.0.0.1:8080  serve any number over HTTP
  gladhand config import --write        take over servers that your editor knows
  gladhand doctor                       is everything there?
  printf '{\"type\":\"handshake\",\"id\":\"1\"}\\n' | gladhand serve

Exit codes: 0 done, 1 something outside failed, 2 usage or configuration,
3 the peer refused, 4 the peer failed, 5 the call failed.";

/// Opens a session with any agent peer, whatever handshake it speaks, and enforces what was agreed.
///
/// Four dialects are spoken, as server and as client: MCP (all five revisions), A2E 1.0,
/// loaf RPC 1.0.0 and Fluxloop. The first line of a peer decides which.
#[derive(Debug, Parser)]
#[command(name = "gladhand", version, about, long_about, after_help = AFTER_HELP, propagate_version = true, max_term_width = WIDTH)]
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
        let argument = cli_separator::explain_argument(&error, &Cli::command(), &texts);
        if argument.is_some() {
            // It would suggest an option that is not meant.
            error.remove(ContextKind::SuggestedArg);
            error.remove(ContextKind::Suggested);
        }
        let hint = argument.or_else(|| cli_separator::explain(&error, &Cli::command(), &texts));
        if hint.is_some() {
            // It would put the `--` elsewhere.
            error.remove(ContextKind::TrailingArg);
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
    /// Log more, on stderr: -v what happens, -vv in detail, -vvv each line's size.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Log less: -q only errors, -qq nothing.
    #[arg(short, long, action = clap::ArgAction::Count, global = true, conflicts_with = "verbose")]
    pub quiet: u8,
    /// How log lines look.
    #[arg(long, value_enum, default_value = "human", global = true)]
    pub log_format: LogFormat,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve one peer on stdin and stdout, or any number over HTTP.
    Serve(ServeArgs),
    /// Put any server behind any client: couple one server to the clients on stdin and stdout, or over HTTP.
    Bridge(BridgeArgs),
    /// Open a session with a server, and show the handshake.
    Open(OpenArgs),
    /// Call a tool of any server, from the command line.
    Call(CallArgs),
    /// Chat with a model that has our tools, in the terminal or for a script.
    Chat(ChatArgs),
    /// List the tools of a server.
    Tools(ToolsArgs),
    /// List the resources of a server, or read one.
    Resources(ResourcesArgs),
    /// List the prompts of a server, or fill one in.
    Prompts(PromptsArgs),
    /// Check, show and fill the configuration file; put us into the configuration of other programs.
    Config(crate::commands::config::ConfigArgs),
    /// Look whether everything that is needed is there, and say what to do where it is not.
    Doctor(crate::commands::doctor::DoctorArgs),
    /// Show what runs: sessions, upstreams, their processes, and what sharing saves.
    #[cfg(unix)]
    Ps(PsArgs),
    /// Look at a repository: what it is made of, which frameworks it uses, how to integrate something.
    Repo(crate::commands::repo::RepoArgs),
    /// Keep secrets on this machine, encrypted.
    Secret(crate::commands::secret::SecretArgs),
    /// Sign in to a server ahead of time.
    Login(crate::commands::login::LoginArgs),
    /// Sign out of a server, and forget its tokens.
    Logout(crate::commands::login::LogoutArgs),
    /// Explain what policy makes of a call, and approve tools that changed.
    Policy(crate::commands::policy::PolicyArgs),
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

const SERVE_HELP: &str = "\
The dialect is decided by the peer's first line, unless --dialect pins it.
Lines go to stdout, logs to stderr, nothing else to either.

With --http, MCP is served at /mcp (and at /sse for clients of 2024-11-05),
A2E at /session, /send and /stream, and stdin and stdout are left alone. Only
requests to loopback names, to the address itself and to --allow-host are
answered. /healthz, /readyz and /health say how we are.

Servers in the configuration file ([upstreams.NAME]) are served too, under
names such as NAME__tool. The file may be changed meanwhile; what is new, gone
or different follows.

Examples:
  gladhand serve
  gladhand serve --dialect mcp -v
  gladhand serve --http 127.0.0.1:8080
  gladhand serve --http 0.0.0.0:443 --allow-host mcp.example.com \\
    --tls-cert cert.pem --tls-key key.pem
  printf '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"rpc.handshake\"}\\n' | gladhand serve

GLADHAND_A2E_TOKEN is one more token that A2E agents may present, beside those
in the configuration.

When stdin closes or a signal arrives, calls in flight finish or fail, all
output is written, and the exit code is 0. A second signal, or one before the
first line of the client, ends the process at once with 130 or 143.";

/// The help of `--as`, which means the same in every command that has it.
const AS: &str =
    "What to speak to the server, as a client: `auto` finds out what it speaks, `mcp` which revision of MCP";

/// The clients that `open` can be: those of every command, and all of them one beside the other.
fn open_clients() -> clap::builder::PossibleValuesParser {
    clients_beside(&[Speak::AUTO, crate::commands::open::ALL])
}

/// `auto`, `mcp`, `mcp@2025-06-18` and so on, from the registry of dialects.
fn clients() -> clap::builder::PossibleValuesParser {
    clients_beside(&[Speak::AUTO])
}

fn clients_beside(words: &[&'static str]) -> clap::builder::PossibleValuesParser {
    let each = gladhand_dialects::REGISTRY.iter().flat_map(|dialect| {
        let versions = dialect.versions.iter().map(|version| {
            let name = format!("{}@{version}", dialect.name);
            clap::builder::PossibleValue::new(name).hide(dialect.versions.len() == 1)
        });
        std::iter::once(clap::builder::PossibleValue::new(dialect.name)).chain(versions)
    });
    words.iter().map(|word| clap::builder::PossibleValue::new(*word)).chain(each).collect::<Vec<_>>().into()
}

pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let whole = text.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
    whole.ok_or_else(|| "expected whole seconds, from 1 to 3600".to_owned())
}

/// `auto` and the names in the registry of dialects.
fn dialects() -> clap::builder::PossibleValuesParser {
    let names = gladhand_dialects::REGISTRY.iter().map(|dialect| dialect.name);
    std::iter::once("auto").chain(names).collect::<Vec<_>>().into()
}

/// Who approves a tool that may do harm.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum WhoApproves {
    /// The client. If the client cannot answer, such tools are refused.
    Ask,
    /// No approval: every tool runs unless it is denied.
    All,
    /// No approval: every tool that needs approval is refused.
    None,
}

impl From<WhoApproves> for Approve {
    fn from(who: WhoApproves) -> Self {
        match who {
            WhoApproves::Ask => Self::Ask,
            WhoApproves::All => Self::All,
            WhoApproves::None => Self::None,
        }
    }
}

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub struct ServeArgs {
    /// Whom to serve, and how.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Who is asked before the agent runs a tool that may do harm [default: ask].
    #[arg(long, value_name = "WHOM")]
    pub approve: Option<WhoApproves>,
}

/// Whom to serve, and how.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// The dialect to speak; `auto` lets the first line decide.
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = dialects())]
    pub dialect: String,
    /// Serve MCP over HTTP at this address instead of stdin and stdout; HOST:PORT or unix:PATH, may be repeated.
    #[arg(long, value_name = "ADDRESS", visible_alias = "listen")]
    pub http: Vec<Address>,
    /// A further name under which HTTP clients may address us, with or without a port; may be repeated.
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allow_host: Vec<String>,
    /// A further origin of web pages that may talk to us, as in https://app.example; may be repeated.
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<String>,
    /// The certificate for HTTPS, with its chain, in PEM form.
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_key"], value_hint = ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM form.
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,
    /// The configuration file [default: your own, and ./gladhand.toml if you trust it].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// The data folder [default: the user's data folder].
    #[arg(long, value_name = "DIR", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
}

const BRIDGE_HELP: &str = "\
The client may speak any dialect and revision, and so may the server: what the
one side lacks is translated, or absent from what is offered. The server starts
with the client's first line, with exactly what that client can be asked. With
--http any number of clients share it where that is safe.

Put it before the command of any server in a client's configuration.

Examples:
  gladhand bridge -- npx -y @modelcontextprotocol/server-everything stdio
  gladhand bridge https://example.org/mcp
  gladhand bridge --http 127.0.0.1:8080 -- my-old-server --stdio

GLADHAND_MCP_TOKEN is the bearer token that is presented to a server over HTTP,
GLADHAND_A2E_TOKEN the one in the handshake with a host of A2E.";

/// Options of `bridge`.
#[derive(Debug, Args)]
#[command(after_help = BRIDGE_HELP)]
pub struct BridgeArgs {
    /// The server's URL, unless a command follows.
    pub url: Option<String>,
    /// As which client to talk to the server.
    #[arg(long = "as", value_name = "DIALECT[@VERSION]", default_value = "auto", value_parser = clients(), ignore_case = true, help = AS)]
    pub client: String,
    /// Give up opening the server after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: u64,
    /// Give up a call after this many seconds without a sign of life; 0: never.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub call_timeout: u64,
    /// Send this header with every HTTP request to the server; may be given several times.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Trust the authorities in this file (PEM) beside those of the system, for a server at an https URL.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// Give every client a server of its own, also where one could be shared.
    #[arg(long, requires = "http")]
    pub isolate: bool,
    /// A folder that clients over HTTP may name as a root to the server; may be given several times. Without it, roots on
    /// this machine are left out of what clients answer.
    #[arg(long, value_name = "FOLDER", requires = "http", value_hint = ValueHint::DirPath)]
    pub client_root: Vec<PathBuf>,
    /// Whom to serve, and how.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// The server to start, with its arguments.
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

const PS_HELP: &str = "\
Lists every `gladhand serve` and `gladhand bridge` of this user, whatever its
data folder: its sessions (client, principal, dialect and revision, age, calls,
what runs) and its upstreams.

Examples:
  gladhand ps
  gladhand ps --watch
  gladhand ps --json";

/// Options of `ps`.
#[derive(Debug, Args)]
#[command(after_help = PS_HELP)]
pub struct PsArgs {
    /// Print JSON; with --watch, one line each time.
    #[arg(long)]
    pub json: bool,
    /// Show it again every two seconds, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
}

const OPEN_HELP: &str = "\
Shows the messages as they went over the wire, then every capability with what
both sides said of it and what survived, then what cannot be had and why, then
the verdict. Exit code 0 only if a session opened.

Examples:
  gladhand open -- my-server
  gladhand open --as mcp@2025-06-18
  gladhand open --as mcp -- npx -y @modelcontextprotocol/server-everything stdio
  gladhand open --as mcp@2026-07-28 https://example.org/mcp
  gladhand open --as all -- my-server
  gladhand open --as a2e --want tools,memory --json -- my-a2e-host

GLADHAND_A2E_TOKEN is the token that `--as a2e` presents, GLADHAND_MCP_TOKEN the
bearer token that is presented over HTTP; a server that is started does not get
to see the variables.";

/// Options of `open`.
#[derive(Debug, Args)]
#[command(after_help = OPEN_HELP)]
pub struct OpenArgs {
    /// As which client to talk to the server.
    #[arg(long = "as", value_name = "DIALECT[@VERSION]", default_value = "auto", value_parser = open_clients(), ignore_case = true, help = format!("{AS}; `all` opens as every client and prints one table"))]
    pub client: String,
    /// Print one JSON object instead of the drawing.
    #[arg(long)]
    pub json: bool,
    /// Use only these capabilities of the server, comma-separated, in the dialect's words.
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',')]
    pub want: Vec<String>,
    /// Declare these capabilities of our own, comma-separated, in the dialect's words.
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',')]
    pub declare: Vec<String>,
    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub timeout: u64,
    /// Send this header with every HTTP request; may be given several times.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Trust the authorities in this file (PEM) beside those of the system, for a server at an https URL.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// The server's URL, unless a command follows.
    pub url: Option<String>,
    /// The server to start, with its arguments [default: gladhand serve].
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// Which server, and how to talk to it.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// As which client to talk to the server.
    #[arg(long = "as", value_name = "DIALECT[@VERSION]", default_value = "auto", value_parser = clients(), ignore_case = true, help = AS)]
    pub client: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Give up after this many seconds without a sign of life.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: u64,
    /// Send this header with every HTTP request; may be given several times.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Trust the authorities in this file (PEM) beside those of the system, for a server at an https URL.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// The server to start, with its arguments [default: gladhand serve].
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

const CALL_HELP: &str = "\
Arguments are read by the tool's own schema: key=value as the type it wants,
key:=JSON as it stands, key=@FILE from a file; a key given again makes a list.
With a tool and a server, --help shows what the tool takes. Text goes to
stdout; progress, log lines and questions of the server go through the
terminal; images and other media are saved as files.

Examples:
  gladhand call echo message=hi
  gladhand call echo --help -- npx my-server
  gladhand call get-sum a=2 b=3 -- npx my-server
  gladhand call search query=@question.txt --json https://example.org/mcp
  gladhand call search --args '{\"query\": \"x\"}' https://example.org/mcp
  gladhand call search --args @query.json https://example.org/mcp

GLADHAND_MCP_TOKEN is the bearer token that is presented over HTTP; a server
that is started does not get to see the variable.";

/// Options of `call`.
#[derive(Debug, Args)]
#[command(after_help = CALL_HELP, disable_help_flag = true, arg_required_else_help = true)]
pub struct CallArgs {
    /// The tool.
    #[arg(required_unless_present = "help", default_value = "", hide_default_value = true)]
    pub tool: String,
    /// Its arguments as key=value, and the URL of the server unless a command follows.
    #[arg(value_name = "KEY=VALUE|URL")]
    pub words: Vec<String>,
    /// All arguments as one JSON object, from a file (@FILE) or from standard input (-); key=value adds to it.
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub args: Option<String>,
    /// Save images and other media into this folder.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub save: PathBuf,
    /// Tell the server that you work in this folder, if it asks; may be given several times.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Vec<PathBuf>,
    /// Print help: of the tool where one is named, else of this command.
    #[arg(short, long)]
    pub help: bool,
    /// Which server, and how.
    #[command(flatten)]
    pub server: ServerArgs,
}

const CHAT_HELP: &str = "\
The agent has its own tools and those of the configuration. It asks before it
runs one that may do harm; a script is not asked, and such tools are refused
unless --approve all. Answers go to stdout, everything else to stderr.

Ctrl-C stops the answer, Ctrl-D leaves, /help lists the commands. A line that
ends in a backslash goes on in the next one; lines that are pasted together are
one message. The arrow keys bring back earlier messages, Ctrl-R searches them.

Examples:
  gladhand chat
  gladhand chat --resume
  gladhand chat --model openrouter/openai/gpt-5 --folder ~/project
  gladhand chat -p 'What does this folder contain?'
  git diff | gladhand chat -p - --json

Models: OPENROUTER_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY, an Ollama or
llama.cpp server on this machine, or the small one that works offline (`local`,
in builds with the feature local-model, after `cargo xtask model`).";

/// Options of `chat`.
#[derive(Debug, Args)]
#[command(after_help = CHAT_HELP)]
pub struct ChatArgs {
    /// Have one question answered, print the answer, and end; `-` reads the question from standard input.
    #[arg(short, long, value_name = "QUESTION", allow_hyphen_values = true)]
    pub print: Option<String>,
    /// Go on with a saved chat, by its id or the beginning of that [default: the last one].
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last")]
    pub resume: Option<String>,
    /// The model to talk to, in this chat: PROVIDER/ID, or a provider, as in `local`.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Who is asked before the agent runs a tool that may do harm [default: ask].
    #[arg(long, value_name = "WHOM")]
    pub approve: Option<WhoApproves>,
    /// The folder that its tools work in [default: this one].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
    /// Print every event as a line of JSON.
    #[arg(long)]
    pub json: bool,
    /// The configuration file [default: your own, and ./gladhand.toml if you trust it].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// The data folder [default: the user's data folder].
    #[arg(long, value_name = "DIR", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
}

const TOOLS_HELP: &str = "\
The server is a URL, or a command behind `--`. `gladhand call TOOL --help` with
the same server shows what a tool takes.

Examples:
  gladhand tools http://localhost:8080/mcp
  gladhand tools --json -- npx my-server";

const RESOURCES_HELP: &str = "\
The server is a URL, or a command behind `--`.

Examples:
  gladhand resources http://localhost:8080/mcp
  gladhand resources --read file:///notes.md http://localhost:8080/mcp";

const PROMPTS_HELP: &str = "\
The server is a URL, or a command behind `--`.

Examples:
  gladhand prompts http://localhost:8080/mcp
  gladhand prompts --get review language=rust http://localhost:8080/mcp";

/// Options of `tools`.
#[derive(Debug, Args)]
#[command(after_help = TOOLS_HELP)]
pub struct ToolsArgs {
    /// The server's URL, unless a command follows.
    pub url: Option<String>,
    /// Which server, and how.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Options of `resources`.
#[derive(Debug, Args)]
#[command(after_help = RESOURCES_HELP)]
pub struct ResourcesArgs {
    /// The server's URL, unless a command follows.
    pub url: Option<String>,
    /// Print what is in this resource; bytes are saved as a file.
    #[arg(long, value_name = "URI")]
    pub read: Option<String>,
    /// Save bytes into this folder.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub save: PathBuf,
    /// Which server, and how.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Options of `prompts`.
#[derive(Debug, Args)]
#[command(after_help = PROMPTS_HELP)]
pub struct PromptsArgs {
    /// Arguments of the prompt as key=value, and the server's URL unless a command follows.
    #[arg(value_name = "KEY=VALUE|URL")]
    pub words: Vec<String>,
    /// Fill in this prompt and print its messages.
    #[arg(long, value_name = "NAME")]
    pub get: Option<String>,
    /// Save images and other media into this folder.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub save: PathBuf,
    /// Which server, and how.
    #[command(flatten)]
    pub server: ServerArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_quickly_is_what_the_whole_tree_reads() {
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

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
use gladhand_models::{Provider, alternatives};
use gladhand_server::http::Address;

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
    /// Open a session with a server, and show the handshake.
    Open(OpenArgs),
    /// Call a tool of a server.
    Call(CallArgs),
    /// Chat with a model that can use your tools, in the terminal or from a script.
    Chat(ChatArgs),
    /// List the tools of a server.
    Tools(ToolsArgs),
    /// List the resources of a server, or read one.
    Resources(ResourcesArgs),
    /// List the prompts of a server, or get one.
    Prompts(PromptsArgs),
    /// Check, show or import configuration; install Gladhand into other programs.
    Config(crate::commands::config::ConfigArgs),
    /// Check the configuration, upstreams and this machine, and suggest fixes.
    Doctor(crate::commands::doctor::DoctorArgs),
    /// Show running Gladhand processes with their sessions and upstreams.
    #[cfg(unix)]
    Ps(PsArgs),
    /// Analyse a repository: languages, frameworks, documentation, integration plans.
    Repo(crate::commands::repo::RepoArgs),
    /// Manage secrets, encrypted on this machine.
    Secret(crate::commands::secret::SecretArgs),
    /// Sign in to a server before its first use.
    Login(crate::commands::login::LoginArgs),
    /// Sign out of a server, and delete its tokens.
    Logout(crate::commands::login::LogoutArgs),
    /// Explain how policy decides a call; approve tools that changed.
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
The client's first line selects the dialect, unless --dialect does. Stdout
carries protocol lines only; logs go to stderr.

With --http, MCP is served at /mcp (and at /sse for clients of 2024-11-05) and
A2E at /session, /send and /stream. Stdin and stdout are not used. A request
must name a loopback host, the address itself or a host of --allow-host. The
server's health is at /healthz, /readyz and /health.

Tools of the servers in the configuration file ([upstreams.NAME]) are served
under names such as NAME__tool. Changes of the file apply while it runs.

Examples:
  gladhand serve
  gladhand serve --dialect mcp -v
  gladhand serve --http 127.0.0.1:8080
  gladhand serve --http 0.0.0.0:443 --allow-host mcp.example.com \\
    --tls-cert cert.pem --tls-key key.pem
  printf '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"rpc.handshake\"}\\n' | gladhand serve

GLADHAND_A2E_TOKEN is a token for A2E agents, in addition to those in the
configuration.

When stdin closes or a signal arrives, calls in flight finish or fail, all
output is written, and the exit code is 0. A second signal, or a signal before
the client's first line, ends the process immediately with 130 or 143.";

/// The help of `--as`, which means the same in every command that has it.
const AS: &str = "Dialect to speak to the server; `auto` detects it, `mcp` detects the revision of MCP";

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
    /// Who approves tools of the agent that may do harm [default: ask].
    #[arg(long, value_name = "WHOM")]
    pub approve: Option<WhoApproves>,
}

/// Whom to serve, and how.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Dialect to speak; `auto`: the client's first line selects it.
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = dialects())]
    pub dialect: String,
    /// Serve over HTTP at this address, HOST:PORT or unix:PATH, instead of stdin and stdout; may be repeated.
    #[arg(long, value_name = "ADDRESS", visible_alias = "listen")]
    pub http: Vec<Address>,
    /// Accept HTTP requests for this host name, with or without a port; may be repeated.
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allow_host: Vec<String>,
    /// Accept requests from web pages of this origin, such as https://app.example; may be repeated.
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<String>,
    /// Certificate chain for HTTPS, in PEM form.
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_key"], value_hint = ValueHint::FilePath)]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM form.
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub tls_key: Option<PathBuf>,
    /// Configuration file [default: your own, and ./gladhand.toml if you trust it].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "DIR", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
}

const BRIDGE_HELP: &str = "\
The client and the server may speak any dialect and revision. Messages are
translated; a feature that one side lacks is not offered to the other. The
server starts with the client's first line and receives the capabilities that
this client declared. With --http, clients share a server process unless a
request of the server could reach the wrong client.

In the configuration of a client, put `gladhand bridge --` before the command
of a server.

Examples:
  gladhand bridge -- npx -y @modelcontextprotocol/server-everything stdio
  gladhand bridge https://example.org/mcp
  gladhand bridge --http 127.0.0.1:8080 -- my-old-server --stdio

GLADHAND_MCP_TOKEN is the bearer token for a server over HTTP, and
GLADHAND_A2E_TOKEN the token in the handshake with an A2E host.";

/// Options of `bridge`.
#[derive(Debug, Args)]
#[command(after_help = BRIDGE_HELP)]
pub struct BridgeArgs {
    /// URL of the server, unless a command follows.
    pub url: Option<String>,
    /// As which client to talk to the server.
    #[arg(long = "as", value_name = "DIALECT[@VERSION]", default_value = "auto", value_parser = clients(), ignore_case = true, help = AS)]
    pub client: String,
    /// Limit for opening the server, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: u64,
    /// Limit for a call without progress, in seconds; 0: no limit.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub call_timeout: u64,
    /// Send this header with every HTTP request to the server; may be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Trust the certificate authorities in this PEM file, in addition to those of the system.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// Start a separate server process for every client.
    #[arg(long, requires = "http")]
    pub isolate: bool,
    /// Folder that HTTP clients may send to the server as a root; may be repeated. Other roots on this machine are
    /// removed from the answers of clients.
    #[arg(long, value_name = "FOLDER", requires = "http", value_hint = ValueHint::DirPath)]
    pub client_root: Vec<PathBuf>,
    /// Whom to serve, and how.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Command that starts the server.
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

const PS_HELP: &str = "\
Lists every `gladhand serve` and `gladhand bridge` of this user, with any data
folder. For each session it shows client, principal, dialect, revision, age and
calls, and for each upstream its processes and how many sessions share them.

Examples:
  gladhand ps
  gladhand ps --watch
  gladhand ps --json";

/// Options of `ps`.
#[derive(Debug, Args)]
#[command(after_help = PS_HELP)]
pub struct PsArgs {
    /// Print JSON; with --watch, one line per update.
    #[arg(long)]
    pub json: bool,
    /// Update every two seconds, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
}

const OPEN_HELP: &str = "\
Shows the messages on the wire, a table of capabilities (declared by the
client, by the server, in force), the capabilities that are absent with the
reason, and the result. The exit code is 0 only if a session opened.

Examples:
  gladhand open -- my-server
  gladhand open --as mcp@2025-06-18
  gladhand open --as mcp -- npx -y @modelcontextprotocol/server-everything stdio
  gladhand open --as mcp@2026-07-28 https://example.org/mcp
  gladhand open --as all -- my-server
  gladhand open --as a2e --want tools,memory --json -- my-a2e-host

GLADHAND_A2E_TOKEN is the token for `--as a2e`, and GLADHAND_MCP_TOKEN is the
bearer token over HTTP. A server that is started does not receive them.";

/// Options of `open`.
#[derive(Debug, Args)]
#[command(after_help = OPEN_HELP)]
pub struct OpenArgs {
    /// As which client to talk to the server.
    #[arg(long = "as", value_name = "DIALECT[@VERSION]", default_value = "auto", value_parser = open_clients(), ignore_case = true, help = format!("{AS}; `all` tries each one and prints a table"))]
    pub client: String,
    /// Print one JSON object instead of the drawing.
    #[arg(long)]
    pub json: bool,
    /// Use only these capabilities of the server: names of the dialect, comma-separated.
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',')]
    pub want: Vec<String>,
    /// Declare these capabilities as the client: names of the dialect, comma-separated.
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',')]
    pub declare: Vec<String>,
    /// Limit for the opening, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub timeout: u64,
    /// Send this header with every HTTP request; may be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Trust the certificate authorities in this PEM file, in addition to those of the system.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// URL of the server, unless a command follows.
    pub url: Option<String>,
    /// Command that starts the server [default: gladhand serve].
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
    /// Limit without any message of the server, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: u64,
    /// Send this header with every HTTP request; may be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Trust the certificate authorities in this PEM file, in addition to those of the system.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// Configuration file, if no server is named [default: as for `serve`].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Data folder, if no server is named [default: the user's data folder].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// Command that starts the server [default: gladhand serve].
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

const CALL_HELP: &str = "\
Arguments follow the tool's schema: key=value is converted to the type of the
schema, key:=JSON is used unchanged, key=@FILE reads a file, and a repeated key
makes a list. With a tool and a server, --help shows the tool's arguments. Text
results go to stdout. Progress, log lines and questions of the server appear on
the terminal. Images and other media are saved as files.

Examples:
  gladhand call echo message=hi
  gladhand call echo --help -- npx my-server
  gladhand call get-sum a=2 b=3 -- npx my-server
  gladhand call search query=@question.txt --json https://example.org/mcp
  gladhand call search --args '{\"query\": \"x\"}' https://example.org/mcp
  gladhand call search --args @query.json https://example.org/mcp

GLADHAND_MCP_TOKEN is the bearer token over HTTP. A server that is started does
not receive this variable.";

/// Options of `call`.
#[derive(Debug, Args)]
#[command(after_help = CALL_HELP, disable_help_flag = true, arg_required_else_help = true)]
pub struct CallArgs {
    /// Name of the tool.
    #[arg(required_unless_present = "help", default_value = "", hide_default_value = true)]
    pub tool: String,
    /// Arguments as key=value, and the URL of the server unless a command follows.
    #[arg(value_name = "KEY=VALUE|URL")]
    pub words: Vec<String>,
    /// Arguments as a JSON object, a file (@FILE) or standard input (-); key=value adds to it.
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub args: Option<String>,
    /// Save images and other media into this folder.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub save: PathBuf,
    /// Folder to name as a root if the server asks for roots; may be repeated.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Vec<PathBuf>,
    /// Print help for the tool, or for this command if no tool is named.
    #[arg(short, long)]
    pub help: bool,
    /// Which server, and how.
    #[command(flatten)]
    pub server: ServerArgs,
}

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

const TOOLS_HELP: &str = "\
The server is a URL, or a command after `--`. `gladhand call TOOL --help` with
the same server shows the arguments of a tool.

Examples:
  gladhand tools http://localhost:8080/mcp
  gladhand tools --json -- npx my-server";

const RESOURCES_HELP: &str = "\
The server is a URL, or a command after `--`.

Examples:
  gladhand resources http://localhost:8080/mcp
  gladhand resources --read file:///notes.md http://localhost:8080/mcp";

const PROMPTS_HELP: &str = "\
The server is a URL, or a command after `--`.

Examples:
  gladhand prompts http://localhost:8080/mcp
  gladhand prompts --get review language=rust http://localhost:8080/mcp";

/// Options of `tools`.
#[derive(Debug, Args)]
#[command(after_help = TOOLS_HELP)]
pub struct ToolsArgs {
    /// URL of the server, unless a command follows.
    pub url: Option<String>,
    /// Which server, and how.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Options of `resources`.
#[derive(Debug, Args)]
#[command(after_help = RESOURCES_HELP)]
pub struct ResourcesArgs {
    /// URL of the server, unless a command follows.
    pub url: Option<String>,
    /// Print the content of this resource; binary content is saved as a file.
    #[arg(long, value_name = "URI")]
    pub read: Option<String>,
    /// Save binary content into this folder.
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
    /// Arguments of the prompt as key=value, and the URL of the server unless a command follows.
    #[arg(value_name = "KEY=VALUE|URL")]
    pub words: Vec<String>,
    /// Get this prompt and print its messages.
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

//! `gladhand call`: calls one tool of any server, as a person would want to.
//!
//! The tool's own schema reads the arguments and makes the help; progress, log lines and questions go through the
//! terminal; text goes to stdout and media into files.

pub(super) mod arguments;
mod describe;
mod form;
mod formats;
pub(super) mod person;

use std::borrow::Cow;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::CommandFactory as _;
use clap::{Args, ValueHint};
use gladhand_core::operations::{Operation, Reply, Tool, ToolCall};
use gladhand_core::wire::json;
use serde_json::{Map, Value};

use crate::cli::Cli;
use crate::commands::shared::arguments::ServerArgs;
use crate::commands::shared::opened_server::{AskedServer, Plan, reply};
use crate::commands::{CommandError, print_data, print_json, written};
use crate::exit::Exit;
use crate::terminal::text::{Reader, plain};
use gladhand_client::upstream::Upstream;

use crate::commands::shared::result_output::{self, Album};
use crate::commands::shared::suggest::{misplaced, unknown};
use crate::terminal::layout;
use arguments::Properties;
use person::Person;

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

/// Calls a tool, or shows its help.
pub fn run(args: CallArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    if args.tool.is_empty() {
        let mut cli = Cli::command();
        cli.build();
        let help = cli.find_subcommand_mut("call").map(|call| call.render_long_help().ansi().to_string());
        written(anstream::stdout().write_all(help.unwrap_or_default().as_bytes()))?;
        return Ok(Exit::Success.into());
    }
    let (words, urls): (Vec<_>, Vec<_>) = args.words.iter().cloned().partition(|word| !is_url(word));
    if urls.len() > 1 {
        return Err(CommandError::usage(anyhow!("{} URLs were given, and a call goes to one", urls.len())));
    }
    if let Some(at) = words.iter().position(|word| !word.contains('=')) {
        let before = format!("gladhand call {} {}", args.tool, words[..at].join(" "));
        return Err(misplaced(before.trim_end(), &words[at..], !urls.is_empty() || !args.server.command.is_empty()));
    }
    let given = args.args.as_deref().map(arguments::given).transpose().map_err(CommandError::usage)?;
    let mut plan = Plan::read(&args.server, urls.first().map(String::as_str))?;
    let roots = args.root.iter().map(fs_err::canonicalize).collect::<Result<_, _>>();
    plan.only_for(&args.tool);
    let person = plan.for_person(Person::new(roots.map_err(CommandError::usage)?, verbosity));
    let shown = plan.shown();
    let asked = plan.asked();
    plan.run(Some(Arc::clone(&person)), |upstream| async move {
        let tool = find(&upstream, &person, &args.tool, &asked).await?;
        if args.help {
            print_help(&tool, &shown)?;
            return Ok(Exit::Success.into());
        }
        let read = read_arguments(&tool, given.as_deref(), &words);
        let arguments = read.map_err(|error| {
            let help = format!("gladhand call {} --help {shown}", plain(&tool.name));
            let help = format!("`{}` shows what it takes", help.trim_end());
            CommandError::usage(error).hint(help)
        })?;
        call(&upstream, &person, &tool, &arguments, &args.save, args.server.json).await
    })
}

/// Prints the help of a tool, with the server as it is typed behind the command.
pub(super) fn print_help(tool: &Tool, shown: &str) -> Result<(), CommandError> {
    written(anstream::stdout().write_all(describe::help(tool, shown, layout::width()).as_bytes()))
}

/// Reads typed arguments by the schema of a tool, on top of those that are given as JSON.
pub(super) fn read_arguments(tool: &Tool, given: Option<&str>, words: &[String]) -> anyhow::Result<Map<String, Value>> {
    Properties::of(tool.input_schema.get()).read(given, words)
}

/// Calls a tool, and prints its result.
pub(super) async fn call(
    upstream: &Upstream,
    person: &Arc<Person>,
    tool: &Tool,
    arguments: &Map<String, Value>,
    save: &Path,
    as_json: bool,
) -> Result<ExitCode, CommandError> {
    let call = ToolCall { name: tool.name.clone().into(), arguments: Cow::Owned(json::to_raw(arguments)) };
    let calling = upstream.call_for(Operation::CallTool(call), Arc::clone(person) as _);
    let outcome = person.waiting(&format!("calling {}", tool.name), calling).await;
    let Reply::Tool(result) = reply(outcome)? else {
        return Err(CommandError::new(Exit::PeerFailed, anyhow!("the server's answer is no tool result")));
    };
    match as_json {
        true => print_json(&result_output::tool_result_json(&result)?)?,
        false => {
            let album = Album::new(save, &tool.name, Reader::of_stdout());
            print_data(&result_output::tool_result(&result, &album)?)?;
        }
    }
    Ok(if result.failed { Exit::CallFailed } else { Exit::Success }.into())
}

/// Whether a word names a server rather than an argument.
fn is_url(word: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| word.starts_with(scheme))
}

/// Finds a tool by name, or returns an error that lists the available ones. Messages of our own server about other
/// upstreams are left out.
pub(super) async fn find(
    upstream: &Upstream,
    person: &Person,
    name: &str,
    asked: &AskedServer,
) -> Result<Tool, CommandError> {
    let listed = person.waiting("listing tools", upstream.call(Operation::ListTools)).await;
    let logs = person.release_logs();
    let Reply::Tools(tools) = reply(listed)? else {
        return Err(CommandError::new(Exit::PeerFailed, anyhow!("the server's answer is no list of tools")));
    };
    if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
        return Ok(tool.clone());
    }
    if let Some(outage) = asked.outage(name, &person.unavailable()) {
        return Err(outage);
    }
    if let Some(withheld) = asked.withheld(name) {
        return Err(withheld);
    }
    logs.iter().for_each(|line| person.say(line));
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    Err(unknown("tool", name, &names, asked))
}

//! `gladhand call`: calls one tool of any server, as a person would want to.
//!
//! The tool's own schema reads the arguments and makes the help; progress, log lines and questions go through the
//! terminal; text goes to stdout and media into files.

mod arguments;
mod describe;
mod form;
pub(super) mod person;

use std::borrow::Cow;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::CommandFactory as _;
use gladhand_operations::{Operation, Reply, Tool, ToolCall};
use gladhand_wire::json;

use crate::cli::{CallArgs, Cli};
use crate::commands::plain::{Reader, plain};
use crate::commands::session::{Plan, reply};
use crate::commands::{CommandError, print_data, print_json, written};
use crate::exit::Exit;
use crate::upstream::Upstream;

use crate::commands::screen;
use crate::commands::show::{self, Album};
use arguments::Properties;
use person::Person;

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
    let mut plan = Plan::read(&args.server, urls.first().map(String::as_str))?;
    let roots = args.root.iter().map(fs_err::canonicalize).collect::<Result<_, _>>();
    let person = plan.for_person(Person::new(roots.map_err(CommandError::usage)?, verbosity));
    let shown = plan.shown();
    plan.run(Arc::clone(&person) as _, |upstream| async move {
        let tool = find(&upstream, &args.tool).await?;
        if args.help {
            written(anstream::stdout().write_all(describe::help(&tool, &shown, screen::width()).as_bytes()))?;
            return Ok(Exit::Success.into());
        }
        let read = Properties::of(tool.input_schema.get()).read(args.args.as_deref(), &words);
        let arguments = read.map_err(|error| {
            let help = format!("gladhand call {} --help {shown}", plain(&tool.name));
            let help = format!("`{}` shows what it takes", help.trim_end());
            CommandError::usage(error).hint(help)
        })?;
        let call = ToolCall { name: tool.name.clone().into(), arguments: Cow::Owned(json::to_raw(&arguments)) };
        let outcome = upstream.call_for(Operation::CallTool(call), Arc::clone(&person) as _).await;
        person.finish();
        let Reply::Tool(result) = reply(outcome)? else {
            return Err(CommandError::new(Exit::PeerFailed, anyhow!("the server's answer is no tool result")));
        };
        match args.server.json {
            true => print_json(&show::tool_result_json(&result)?)?,
            false => {
                let album = Album::new(&args.save, &tool.name, Reader::of_stdout());
                print_data(&show::tool_result(&result, &album)?)?;
            }
        }
        Ok(if result.failed { Exit::CallFailed } else { Exit::Success }.into())
    })
}

/// Whether a word names a server rather than an argument.
fn is_url(word: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| word.starts_with(scheme))
}

/// The tool of a name, or what there is instead.
async fn find(upstream: &Upstream, name: &str) -> Result<Tool, CommandError> {
    let Reply::Tools(tools) = reply(upstream.call(Operation::ListTools).await)? else {
        return Err(CommandError::new(Exit::PeerFailed, anyhow!("the server's answer is no list of tools")));
    };
    tools.iter().find(|tool| tool.name == name).cloned().ok_or_else(|| {
        let names: Vec<_> = tools.iter().map(|tool| plain(&tool.name)).collect();
        let hint = if names.is_empty() { "it has no tools".to_owned() } else { format!("it has {}", names.join(", ")) };
        CommandError::usage(anyhow!("the server has no tool `{}`", plain(name))).hint(hint)
    })
}

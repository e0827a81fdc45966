//! `gladhand tools`, `resources` and `prompts`: what a server has, and reading or filling in one of it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anstyle::Style;
use anyhow::anyhow;
use clap::{Args, ValueHint};
use gladhand_core::operations::{Operation, Prompt, Reply, Resource, Template, Tool, ToolCall};
use gladhand_core::wire::{RawValue, json};
use serde_json::{Map, Value, json};

use crate::commands::call::arguments::{Properties, Property};
use crate::commands::call::person::Person;
use crate::commands::shared::arguments::ServerArgs;
use crate::commands::shared::opened_server::{AskedServer, Plan, reply};
use crate::commands::shared::result_output::{self, Album};
use crate::commands::shared::suggest::{misplaced, unknown};
use crate::commands::{CommandError, note, written};
use crate::exit::Exit;
use crate::terminal::layout;
use crate::terminal::text::{Reader, plain};
use gladhand_client::upstream::Upstream;

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

const STRONG: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// Lists tools.
pub fn tools(args: ToolsArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let mut plan = Plan::read(&args.server, args.url.as_deref())?;
    let person = plan.for_person(Person::new(Vec::new(), verbosity));
    plan.note_unavailable();
    plan.run(
        Some(Arc::clone(&person)),
        |upstream| async move { list_tools(&upstream, &person, args.server.json).await },
    )
}

/// Lists resources and templates, or reads one.
pub fn resources(args: ResourcesArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let mut plan = Plan::read(&args.server, args.url.as_deref())?;
    let person = plan.for_person(Person::new(Vec::new(), verbosity));
    plan.note_unavailable();
    plan.run(Some(Arc::clone(&person)), |upstream| async move {
        match &args.read {
            Some(uri) => read_resource(&upstream, &person, uri, &args.save, args.server.json).await,
            None => list_resources(&upstream, &person, args.server.json).await,
        }
    })
}

/// Lists prompts, or fills one in.
pub fn prompts(args: PromptsArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let (url, words) = match args.words.split_last() {
        Some((last, words)) if last.starts_with("http://") || last.starts_with("https://") => {
            (Some(last.as_str()), words)
        }
        _ => (None, args.words.as_slice()),
    };
    let arguments = prompt_arguments(words).map_err(|at| {
        let get = args.get.as_ref().map(|name| format!(" --get {name}")).unwrap_or_default();
        let before = format!("gladhand prompts{get} {}", words[..at].join(" "));
        let has_command = url.is_some() || !args.server.command.is_empty();
        misplaced(before.trim_end(), &words[at..], has_command)
    })?;
    if args.get.is_none() && !arguments.is_empty() {
        return Err(CommandError::usage(anyhow!("arguments need a prompt: --get NAME")));
    }
    let mut plan = Plan::read(&args.server, url)?;
    let person = plan.for_person(Person::new(Vec::new(), verbosity));
    plan.note_unavailable();
    let asked = plan.asked();
    plan.run(Some(Arc::clone(&person)), |upstream| async move {
        match &args.get {
            Some(name) => get_prompt(&upstream, &person, &asked, name, &arguments, &args.save, args.server.json).await,
            None => list_prompts(&upstream, &person, args.server.json).await,
        }
    })
}

/// Arguments of a prompt as they are typed, or the place of the word that is none.
pub(super) fn prompt_arguments(words: &[String]) -> Result<Map<String, Value>, usize> {
    let pair = |(at, word): (usize, &String)| {
        let (key, value) = word.split_once('=').ok_or(at)?;
        Ok((key.to_owned(), Value::String(value.to_owned())))
    };
    words.iter().enumerate().map(pair).collect()
}

/// Prints the tools of a session.
pub(super) async fn list_tools(upstream: &Upstream, person: &Person, as_json: bool) -> Result<ExitCode, CommandError> {
    let listed = ask(upstream, person, "listing tools", Operation::ListTools).await?;
    let Reply::Tools(tools) = listed else { return Err(mixed_up()) };
    match as_json {
        true => print_json(
            &Object::default()
                .with("tools", &tools.iter().map(tool).collect::<Vec<_>>())
                .with("unavailable", &person.unavailable()),
        ),
        false => print_table(tools.iter().map(described_tool), "tools"),
    }
}

/// Prints the content of a resource.
pub(super) async fn read_resource(
    upstream: &Upstream,
    person: &Person,
    uri: &str,
    save: &Path,
    as_json: bool,
) -> Result<ExitCode, CommandError> {
    let read = ask(upstream, person, "reading the resource", Operation::ReadResource(uri.into())).await?;
    let Reply::Contents(contents) = read else { return Err(mixed_up()) };
    match as_json {
        true => print_json(&json!({"contents": contents.parts})),
        false => print_data(&result_output::contents(&contents, &Album::new(save, "resource", Reader::of_stdout()))?),
    }
}

/// Prints the resources and templates of a session.
pub(super) async fn list_resources(
    upstream: &Upstream,
    person: &Person,
    as_json: bool,
) -> Result<ExitCode, CommandError> {
    let ask = |what, operation| ask(upstream, person, what, operation);
    let Reply::Resources(resources) = ask("listing resources", Operation::ListResources).await? else {
        return Err(mixed_up());
    };
    let Reply::Templates(templates) = ask("listing templates", Operation::ListTemplates).await? else {
        return Err(mixed_up());
    };
    if as_json {
        let resources: Vec<_> = resources.iter().map(resource).collect();
        let templates: Vec<_> = templates.iter().map(template).collect();
        return print_json(
            &Object::default()
                .with("resources", &resources)
                .with("resourceTemplates", &templates)
                .with("unavailable", &person.unavailable()),
        );
    }
    let about = |name: &str, text: &Option<String>| match text {
        Some(text) => format!("{name}: {text}"),
        None => name.to_owned(),
    };
    let resources = resources.iter().map(|one| Entry::new(&one.uri, about(&one.name, &one.description)));
    let templates = templates.iter().map(|one| Entry::new(&one.uri_template, about(&one.name, &one.description)));
    print_table(resources.chain(templates), "resources")
}

/// Prints a prompt that is filled in.
pub(super) async fn get_prompt(
    upstream: &Upstream,
    person: &Person,
    asked: &AskedServer,
    name: &str,
    arguments: &Map<String, Value>,
    save: &Path,
    as_json: bool,
) -> Result<ExitCode, CommandError> {
    let ask = |what, operation| ask(upstream, person, what, operation);
    let Reply::Prompts(prompts) = ask("listing prompts", Operation::ListPrompts).await? else {
        return Err(mixed_up());
    };
    check_prompt(&prompts, name, arguments, asked)?;
    let call = ToolCall { name: name.into(), arguments: Cow::Owned(json::to_raw(arguments)) };
    let Reply::Prompt(prompt) = ask("filling in the prompt", Operation::GetPrompt(call)).await? else {
        return Err(mixed_up());
    };
    match as_json {
        true => print_json(&json!({"description": prompt.description, "messages": prompt.messages})),
        false => print_data(&result_output::prompt_result(&prompt, &Album::new(save, name, Reader::of_stdout()))?),
    }
}

/// Prints the prompts of a session.
pub(super) async fn list_prompts(
    upstream: &Upstream,
    person: &Person,
    as_json: bool,
) -> Result<ExitCode, CommandError> {
    let listed = ask(upstream, person, "listing prompts", Operation::ListPrompts).await?;
    let Reply::Prompts(prompts) = listed else { return Err(mixed_up()) };
    match as_json {
        true => print_json(
            &Object::default()
                .with("prompts", &prompts.iter().map(prompt).collect::<Vec<_>>())
                .with("unavailable", &person.unavailable()),
        ),
        false => print_table(prompts.iter().map(|prompt| Entry::new(&signature(prompt), described(prompt))), "prompts"),
    }
}

/// Says which arguments of a prompt are missing, or which prompt may be meant, where the server would say less.
fn check_prompt(
    prompts: &[Prompt],
    name: &str,
    given: &Map<String, Value>,
    asked: &AskedServer,
) -> Result<(), CommandError> {
    let Some(prompt) = prompts.iter().find(|prompt| prompt.name == name) else {
        let names: Vec<_> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
        return Err(unknown("prompt", name, &names, asked));
    };
    let missing: Vec<_> =
        prompt.arguments.iter().filter(|one| one.required && !given.contains_key(&one.name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|argument| format!("`{}`", plain(&argument.name))).collect();
    let error = match missing.len() {
        1 => anyhow!("the prompt needs the argument {}", names[0]),
        _ => anyhow!("the prompt needs the arguments {}", names.join(", ")),
    };
    let described = missing.iter().filter_map(|argument| {
        let description = argument.description.as_deref()?;
        Some(format!("\n  {}: {}", plain(&argument.name), plain(description)))
    });
    let described: String = described.collect();
    let form: Vec<_> = missing.iter().map(|argument| format!("{}=…", plain(&argument.name))).collect();
    Err(CommandError::usage(error).hint(format!("write {}{described}", form.join(" "))))
}

/// Asks a server, and shows the log lines that were held back.
pub(super) async fn ask(
    upstream: &Upstream,
    person: &Person,
    what: &str,
    operation: Operation<'_>,
) -> Result<Reply, CommandError> {
    let reply = reply(person.waiting(what, upstream.call(operation)).await);
    let is_said = |line: &str| {
        let (_, message) = line.split_once(": ").unwrap_or_default();
        reply.as_ref().is_err_and(|error| error.to_string().contains(message))
    };
    person.release_logs().iter().filter(|line| !is_said(line)).for_each(|line| person.say(line));
    reply
}

/// The error of an answer of another kind than the question.
pub(super) fn mixed_up() -> CommandError {
    CommandError::new(Exit::PeerFailed, anyhow!("the server's answer is not what was asked for"))
}

fn print(text: &str) -> Result<ExitCode, CommandError> {
    written(anstream::stdout().write_all(text.as_bytes()))?;
    Ok(Exit::Success.into())
}

/// Prints what was read or filled in.
fn print_data(text: &str) -> Result<ExitCode, CommandError> {
    crate::commands::print_data(text)?;
    Ok(Exit::Success.into())
}

pub(super) fn print_json(value: &impl serde::Serialize) -> Result<ExitCode, CommandError> {
    let mut text = json::to_raw(value).get().as_bytes().to_vec();
    json::flatten(&mut text);
    crate::commands::print_json(&String::from_utf8(text)?)?;
    Ok(Exit::Success.into())
}

/// Prints the entries, or says on stderr that there are none.
fn print_table(entries: impl Iterator<Item = Entry>, what: &str) -> Result<ExitCode, CommandError> {
    let text = table(entries, layout::width());
    if text.is_empty() {
        note(&format!("the server has no {what}"));
    }
    print(&text)
}

/// Something that a server has.
#[derive(Debug)]
struct Entry {
    name: String,
    /// The names of its arguments, those that may be left out with a `?`.
    arguments: Vec<String>,
    description: String,
}

impl Entry {
    fn new(name: &str, description: String) -> Self {
        Self { name: name.to_owned(), arguments: Vec::new(), description }
    }
}

fn described_tool(tool: &Tool) -> Entry {
    let properties = Properties::of(tool.input_schema.get());
    let argument = |one: &Property| if one.required { one.name.clone() } else { format!("{}?", one.name) };
    Entry { arguments: properties.iter().map(argument).collect(), ..Entry::new(&tool.name, tool.description.clone()) }
}

/// Names in bold with their arguments, and under each the first lines of what it is.
fn table(entries: impl Iterator<Item = Entry>, width: Option<usize>) -> String {
    let mut text = String::new();
    for Entry { name, arguments, description } in entries {
        let (name, arguments) = (plain(&name), plain(&arguments.join(", ")));
        let fits = width.is_none_or(|width| layout::columns(&name) + 2 + layout::columns(&arguments) <= width);
        // Writing to a String cannot fail.
        let _ = match !arguments.is_empty() && fits {
            true => writeln!(text, "{STRONG}{name}{STRONG:#}  {FAINT}{arguments}{FAINT:#}"),
            false => writeln!(text, "{STRONG}{name}{STRONG:#}"),
        };
        if !fits {
            let mut rows = String::new();
            layout::write_line(&mut rows, 4, &arguments, width);
            for row in rows.lines() {
                let _ = writeln!(text, "{FAINT}{row}{FAINT:#}");
            }
        }
        let mut lines = description.trim().lines();
        for line in lines.by_ref().take(3) {
            layout::write_line(&mut text, 2, &plain(line), width);
        }
        if lines.next().is_some() {
            let _ = writeln!(text, "  {FAINT}…{FAINT:#}");
        }
    }
    text
}

/// `greet name=… [mood=…]`
fn signature(prompt: &Prompt) -> String {
    let argument = |argument: &gladhand_core::operations::PromptArgument| {
        if argument.required { format!(" {}=…", argument.name) } else { format!(" [{}=…]", argument.name) }
    };
    format!("{}{}", prompt.name, prompt.arguments.iter().map(argument).collect::<String>())
}

fn described(prompt: &Prompt) -> String {
    prompt.description.clone().unwrap_or_default()
}

/// An object that keeps the order of its members and payloads as they were written.
#[derive(Default)]
struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    fn with(mut self, name: &str, value: &(impl serde::Serialize + ?Sized)) -> Self {
        self.0.push((name.to_owned(), json::to_raw(value)));
        self
    }

    fn with_some(self, name: &str, value: &Option<impl serde::Serialize>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn and(mut self, extra: &[(String, Box<RawValue>)]) -> Self {
        self.0.extend(extra.iter().cloned());
        self
    }
}

impl serde::Serialize for Object {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn tool(tool: &Tool) -> Object {
    Object::default()
        .with("name", &tool.name)
        .with_some("title", &tool.title)
        .with("description", &tool.description)
        .with("inputSchema", &tool.input_schema)
        .with_some("outputSchema", &tool.output_schema)
        .and(&tool.extra)
}

fn resource(resource: &Resource) -> Object {
    Object::default()
        .with("uri", &resource.uri)
        .with("name", &resource.name)
        .with_some("title", &resource.title)
        .with_some("description", &resource.description)
        .with_some("mimeType", &resource.mime_type)
        .and(&resource.extra)
}

fn template(template: &Template) -> Object {
    Object::default()
        .with("uriTemplate", &template.uri_template)
        .with("name", &template.name)
        .with_some("title", &template.title)
        .with_some("description", &template.description)
        .with_some("mimeType", &template.mime_type)
        .and(&template.extra)
}

fn prompt(prompt: &Prompt) -> Object {
    let argument = |argument: &gladhand_core::operations::PromptArgument| {
        Object::default()
            .with("name", &argument.name)
            .with_some("description", &argument.description)
            .with("required", &argument.required)
            .and(&argument.extra)
    };
    Object::default()
        .with("name", &prompt.name)
        .with_some("title", &prompt.title)
        .with_some("description", &prompt.description)
        .with("arguments", &prompt.arguments.iter().map(argument).collect::<Vec<_>>())
        .and(&prompt.extra)
}

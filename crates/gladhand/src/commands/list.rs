//! `gladhand tools`, `resources` and `prompts`: what a server has, and reading or filling in one of it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anstyle::Style;
use anyhow::anyhow;
use gladhand_operations::{Operation, Prompt, Reply, Resource, Template, Tool, ToolCall};
use gladhand_wire::{RawValue, json};
use serde_json::{Map, Value, json};

use crate::cli::{PromptsArgs, ResourcesArgs, ToolsArgs};
use crate::commands::call::person::Person;
use crate::commands::plain::{Reader, plain};
use crate::commands::screen;
use crate::commands::session::{Plan, reply};
use crate::commands::show::{self, Album};
use crate::commands::{CommandError, written};
use crate::exit::Exit;
use crate::upstream::Upstream;

const STRONG: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// Lists tools.
pub fn tools(args: ToolsArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let mut plan = Plan::read(&args.server, args.url.as_deref())?;
    let person = plan.for_person(Person::new(Vec::new(), verbosity));
    plan.run(person, |upstream| async move {
        let Reply::Tools(tools) = ask(&upstream, Operation::ListTools).await? else { return Err(mixed_up()) };
        match args.server.json {
            true => print_json(&json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()})),
            false => print_table(tools.iter().map(|tool| (tool.name.clone(), tool.description.clone())), "tools"),
        }
    })
}

/// Lists resources and templates, or reads one.
pub fn resources(args: ResourcesArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let mut plan = Plan::read(&args.server, args.url.as_deref())?;
    let person = plan.for_person(Person::new(Vec::new(), verbosity));
    plan.run(person, |upstream| async move {
        if let Some(uri) = &args.read {
            let operation = Operation::ReadResource(uri.as_str().into());
            let Reply::Contents(contents) = ask(&upstream, operation).await? else { return Err(mixed_up()) };
            return match args.server.json {
                true => print_json(&json!({"contents": contents.parts})),
                false => {
                    print_data(&show::contents(&contents, &Album::new(&args.save, "resource", Reader::of_stdout()))?)
                }
            };
        }
        let Reply::Resources(resources) = ask(&upstream, Operation::ListResources).await? else {
            return Err(mixed_up());
        };
        let Reply::Templates(templates) = ask(&upstream, Operation::ListTemplates).await? else {
            return Err(mixed_up());
        };
        if args.server.json {
            let resources: Vec<_> = resources.iter().map(resource).collect();
            let templates: Vec<_> = templates.iter().map(template).collect();
            return print_json(&Object::default().with("resources", &resources).with("resourceTemplates", &templates));
        }
        let about = |name: &str, text: &Option<String>| match text {
            Some(text) => format!("{name}: {text}"),
            None => name.to_owned(),
        };
        let resources = resources.iter().map(|one| (one.uri.clone(), about(&one.name, &one.description)));
        let templates = templates.iter().map(|one| (one.uri_template.clone(), about(&one.name, &one.description)));
        print_table(resources.chain(templates), "resources")
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
    let mut arguments = Map::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(CommandError::usage(anyhow!("{word:?} is neither `key=value` nor a URL")));
        };
        arguments.insert(key.to_owned(), Value::String(value.to_owned()));
    }
    if args.get.is_none() && !arguments.is_empty() {
        return Err(CommandError::usage(anyhow!("arguments need a prompt: --get NAME")));
    }
    let mut plan = Plan::read(&args.server, url)?;
    let person = plan.for_person(Person::new(Vec::new(), verbosity));
    plan.run(person, |upstream| async move {
        if let Some(name) = &args.get {
            let call = ToolCall { name: name.as_str().into(), arguments: Cow::Owned(json::to_raw(&arguments)) };
            let Reply::Prompt(prompt) = ask(&upstream, Operation::GetPrompt(call)).await? else {
                return Err(mixed_up());
            };
            return match args.server.json {
                true => print_json(&json!({"description": prompt.description, "messages": prompt.messages})),
                false => print_data(&show::prompt_result(&prompt, &Album::new(&args.save, name, Reader::of_stdout()))?),
            };
        }
        let Reply::Prompts(prompts) = ask(&upstream, Operation::ListPrompts).await? else { return Err(mixed_up()) };
        match args.server.json {
            true => print_json(&json!({"prompts": prompts.iter().map(prompt).collect::<Vec<_>>()})),
            false => print_table(prompts.iter().map(|prompt| (signature(prompt), described(prompt))), "prompts"),
        }
    })
}

async fn ask(upstream: &Upstream, operation: Operation<'_>) -> Result<Reply, CommandError> {
    reply(upstream.call(operation).await)
}

fn mixed_up() -> CommandError {
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

fn print_json(value: &impl serde::Serialize) -> Result<ExitCode, CommandError> {
    let mut text = json::to_raw(value).get().as_bytes().to_vec();
    json::flatten(&mut text);
    crate::commands::print_json(&String::from_utf8(text)?)?;
    Ok(Exit::Success.into())
}

/// Prints what there is, or says beside it that there is nothing.
fn print_table(entries: impl Iterator<Item = (String, String)>, what: &str) -> Result<ExitCode, CommandError> {
    let text = table(entries, screen::width());
    if text.is_empty() {
        // Nobody reads stderr: then there is nobody to tell.
        let _ = writeln!(anstream::stderr(), "the server has no {what}");
    }
    print(&text)
}

/// Names in bold, and under each the first lines of what it is.
fn table(entries: impl Iterator<Item = (String, String)>, width: Option<usize>) -> String {
    let mut text = String::new();
    for (name, description) in entries {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{STRONG}{}{STRONG:#}", plain(&name));
        let mut lines = description.trim().lines();
        for line in lines.by_ref().take(3) {
            screen::write_line(&mut text, 2, &plain(line), width);
        }
        if lines.next().is_some() {
            let _ = writeln!(text, "  {FAINT}…{FAINT:#}");
        }
    }
    text
}

/// `greet name=… [mood=…]`
fn signature(prompt: &Prompt) -> String {
    let argument = |argument: &gladhand_operations::PromptArgument| {
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
    let argument = |argument: &gladhand_operations::PromptArgument| {
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

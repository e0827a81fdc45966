//! The client that the official conformance suite drives: `conformance_client URL`, with the scenario in the
//! environment. It is written as a user of [`gladhand::upstream`] would write it.

mod authorization;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use futures_util::future::BoxFuture;
use gladhand::negotiation::Capability;
use gladhand::operations::{
    Answered, Failure, FailureKind, Operation, Question, QuestionKind, Reply, Tool, ToolCall, ToolResult,
};
use gladhand::upstream::{Options, Speak, Target, Upstream, UpstreamEvents, accept_defaults};
use gladhand::wire::{RawValue, json};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The suite shows what a client that fails has to say.
            #[expect(clippy::print_stderr, reason = "stderr is where the suite looks")]
            {
                eprintln!("{error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let url = std::env::args().next_back().context("the last argument is the server's URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let mut options = options()?;
    options.authorizer = Some(Arc::new(authorization::authorizer(&scenario, &url, &context()?)?));
    let upstream = Upstream::open(&Target::parse(&[url])?, options, Arc::new(Person)).await?;
    let done = play(&scenario, &upstream).await;
    upstream.close().await;
    done
}

fn options() -> anyhow::Result<Options> {
    let speak = match std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        Ok(version) => Speak::parse(&format!("mcp@{version}")).ok_or_else(|| anyhow!("we do not speak {version}"))?,
        Err(_) => Speak::Auto,
    };
    let provides = ["elicitation", "elicitation.form"].map(|name| (Capability::named(name), None)).to_vec();
    Ok(Options { speak, provides, ..Options::default() })
}

/// The description of the scenario from the suite, if there is one.
fn context() -> anyhow::Result<Value> {
    match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => Ok(serde_json::from_str(&context)?),
        Err(_) => Ok(Value::Null),
    }
}

async fn play(scenario: &str, upstream: &Upstream) -> anyhow::Result<()> {
    let tools = tools(upstream).await?;
    match scenario {
        "tools_call" => {
            call(upstream, "add_numbers", &json!({"a": 5, "b": 3})).await?;
        }
        "http-standard-headers" => every_feature(upstream, &tools).await?,
        "http-custom-headers" => {
            for wanted in context()?["toolCalls"].as_array().into_iter().flatten() {
                call(upstream, wanted["name"].as_str().unwrap_or_default(), &wanted["arguments"]).await?;
            }
        }
        "json-schema-2020-12-preservation" => {
            let focal = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool").context("no focal tool")?;
            let arguments = json::raw(format!(r#"{{"schema":{}}}"#, focal.input_schema.get()));
            call_raw(upstream, "json_schema_echo", arguments).await?;
        }
        "initialize" | "json-schema-ref-no-deref" | "request-metadata" => {}
        // Calls every offered tool, with the arguments that its schema requires.
        _ => {
            for tool in &*tools {
                call(upstream, &tool.name, &arguments_for(tool)).await?;
            }
        }
    }
    Ok(())
}

/// Lists and uses one of each.
async fn every_feature(upstream: &Upstream, tools: &[Tool]) -> anyhow::Result<()> {
    if let Some(tool) = tools.first() {
        call(upstream, &tool.name, &arguments_for(tool)).await?;
    }
    if let Reply::Resources(resources) = upstream.call(Operation::ListResources).await?
        && let Some(resource) = resources.first()
    {
        upstream.call(Operation::ReadResource(resource.uri.as_str().into())).await?;
    }
    if let Reply::Prompts(prompts) = upstream.call(Operation::ListPrompts).await?
        && let Some(prompt) = prompts.first()
    {
        let arguments: serde_json::Map<_, _> =
            prompt.arguments.iter().map(|argument| (argument.name.clone(), json!("test"))).collect();
        let arguments = std::borrow::Cow::Owned(json::to_raw(&arguments));
        upstream.call(Operation::GetPrompt(ToolCall { name: prompt.name.as_str().into(), arguments })).await?;
    }
    Ok(())
}

async fn tools(upstream: &Upstream) -> anyhow::Result<Arc<[Tool]>> {
    match upstream.call(Operation::ListTools).await? {
        Reply::Tools(tools) => Ok(tools),
        other => bail!("no list of tools: {other:?}"),
    }
}

async fn call(upstream: &Upstream, name: &str, arguments: &Value) -> anyhow::Result<ToolResult> {
    call_raw(upstream, name, json::to_raw(arguments)).await
}

async fn call_raw(upstream: &Upstream, name: &str, arguments: Box<RawValue>) -> anyhow::Result<ToolResult> {
    let tool = ToolCall { name: name.into(), arguments: std::borrow::Cow::Owned(arguments) };
    match upstream.call_for(Operation::CallTool(tool), Arc::new(Person)).await? {
        Reply::Tool(result) => Ok(result),
        other => bail!("no result of a tool: {other:?}"),
    }
}

/// Arguments that a tool's schema lets pass: something for each property that it requires.
fn arguments_for(tool: &Tool) -> Value {
    let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap_or_default();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let names = required.iter().filter_map(Value::as_str);
    names
        .map(|name| (name.to_owned(), something(&schema["properties"][name])))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn something(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("test"),
    }
}

/// A user who fills in every form: with the defaults, or else with arbitrary values.
struct Person;

impl UpstreamEvents for Person {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        Box::pin(async move {
            if question.kind != QuestionKind::Elicit {
                return Err(Failure::new(FailureKind::Unanswered, "only forms are filled in here"));
            }
            let params: Value = serde_json::from_str(question.params.get()).unwrap_or_default();
            let properties = params["requestedSchema"]["properties"].as_object().cloned().unwrap_or_default();
            if properties.values().all(|property| property.get("default").is_some()) {
                return accept_defaults(&question);
            }
            let content: serde_json::Map<_, _> = properties
                .iter()
                .map(|(name, schema)| {
                    (name.clone(), schema.get("default").cloned().unwrap_or_else(|| something(schema)))
                })
                .collect();
            Ok(json::to_raw(&json!({"action": "accept", "content": content})))
        })
    }
}

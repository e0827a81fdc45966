//! Tools that answer without asking: all kinds of content, progress, logs, resources, prompts, completion.

use std::time::Duration;

use gladhand::hub::{Kit, Reporter};
use gladhand::operations::{
    Completion, CompletionOf, Content, Contents, Failure, Level, Log, Progress, Prompt, PromptResult, Resource,
    Template, Tool, ToolResult,
};
use gladhand::wire::json::to_raw;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

/// One red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// A moment of silence.
const WAV: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQgAAAAAAAAAAAAAAA==";
/// Between the steps of a tool that has steps. Some clients lose a report that arrives together with the reply, so they
/// must not be so close that a busy machine makes one of two.
const STEP: Duration = Duration::from_millis(150);

pub(crate) fn kit() -> Kit {
    completed(prompts(resources(slow_tools(tools(Kit::new())))))
}

fn tools(kit: Kit) -> Kit {
    let embedded =
        || Content::resource("test://embedded-resource", "text/plain", "This is an embedded resource content.");
    let mixed = || {
        let data = json!({"test": "data", "value": 123}).to_string();
        let resource = Content::resource("test://mixed-content-resource", "application/json", &data);
        ToolResult::of([Content::text("Multiple content types test:"), Content::image("image/png", PNG), resource])
    };
    kit.tool(Tool::plain("test_simple_text", "Returns a line of text."), |_, _| {
        Ok(ToolResult::text("This is a simple text response for testing."))
    })
    .tool(Tool::plain("test_image_content", "Returns a picture."), |_, _| {
        Ok(ToolResult::of([Content::image("image/png", PNG)]))
    })
    .tool(Tool::plain("test_audio_content", "Returns a sound."), |_, _| {
        Ok(ToolResult::of([Content::audio("audio/wav", WAV)]))
    })
    .tool(Tool::plain("test_embedded_resource", "Returns a resource."), move |_, _| Ok(ToolResult::of([embedded()])))
    .tool(
        Tool::plain("test_multiple_content_types", "Returns text, a picture and a resource."),
        move |_, _| Ok(mixed()),
    )
    .tool(Tool::plain("test_error_handling", "Reports a failure."), |_, _| {
        Ok(ToolResult::failure("This tool intentionally returns an error for testing"))
    })
    .tool(
        Tool::plain("json_schema_2020_12_tool", "Has a schema with everything in it.").taking(&schema()),
        |call, _| Ok(ToolResult::text(call.arguments.get())),
    )
    .tool(
        Tool::plain("test_x_mcp_header", "Has an argument that goes by HTTP header too.").taking(&json!({
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        })),
        |call, _| Ok(ToolResult::text(call.arguments.get())),
    )
}

fn slow_tools(kit: Kit) -> Kit {
    let progress = |reporter: &Reporter, progress: f64| {
        reporter.progress(Progress { progress, total: Some(100.0), message: None });
    };
    kit.slow_tool(Tool::plain("test_tool_with_progress", "Reports progress."), move |_, reporter| async move {
        progress(&reporter, 0.0);
        sleep(STEP).await;
        progress(&reporter, 50.0);
        sleep(STEP).await;
        progress(&reporter, 100.0);
        Ok(ToolResult::text("Progress was reported."))
    })
    .slow_tool(Tool::plain("test_tool_with_logging", "Writes three log lines."), |_, reporter| logs(reporter))
    .slow_tool(Tool::plain("test_logging_tool", "Writes three log lines."), |_, reporter| logs(reporter))
    .slow_tool(Tool::plain("test_reconnection", "Lets its caller go and come back."), |_, reporter| async move {
        reporter.come_back_later(2 * STEP);
        sleep(2 * STEP).await;
        Ok(ToolResult::text("The caller came back for this."))
    })
}

async fn logs(reporter: Reporter) -> Result<ToolResult, Failure> {
    let log = |text| reporter.log(Log::new(Level::Info, None, to_raw(text)));
    log("Tool execution started");
    sleep(STEP).await;
    log("Tool processing data");
    sleep(STEP).await;
    log("Tool execution completed");
    Ok(ToolResult::text("Three lines were written."))
}

fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

fn resources(kit: Kit) -> Kit {
    let text = Resource::new("test://static-text", "static-text", "A text that never changes.").of_type("text/plain");
    let binary = Resource::new("test://static-binary", "static-binary", "A red pixel.").of_type("image/png");
    let watched = Resource::new("test://watched-resource", "watched-resource", "Can be watched.").of_type("text/plain");
    let template = Template::new("test://template/{id}/data", "data", "Data by id.").of_type("application/json");
    let pattern = template.clone();
    kit.resource(text, |uri, _| {
        Ok(Contents::text(uri, "text/plain", "This is the content of the static text resource."))
    })
    .resource(binary, |uri, _| Ok(Contents::blob(uri, "image/png", PNG)))
    .resource(watched, |uri, _| Ok(Contents::text(uri, "text/plain", "Nothing has happened yet.")))
    .template(template, move |uri, _| {
        let variables = pattern.variables(uri).unwrap_or_default();
        let id = variables.first().map_or("", |(_, id)| *id);
        let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
        Ok(Contents::text(uri, "application/json", &data.to_string()))
    })
    .resource_updates()
}

fn prompts(kit: Kit) -> Kit {
    let two = Prompt::new("test_prompt_with_arguments", "Repeats its two arguments.")
        .argument("arg1", "The first.")
        .argument("arg2", "The second.");
    let embedding = Prompt::new("test_prompt_with_embedded_resource", "Carries a resource.")
        .argument("resourceUri", "Which resource.");
    kit.prompt(Prompt::new("test_simple_prompt", "Says one thing."), |_, _| {
        Ok(PromptResult::text("This is a simple prompt for testing."))
    })
    .prompt(two, |call, _| {
        let Two { arg1, arg2 } = call.read()?;
        Ok(PromptResult::text(&format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")))
    })
    .prompt(embedding, |call, _| {
        let Embedding { resource_uri } = call.read()?;
        let resource = Content::resource(&resource_uri, "text/plain", "Embedded resource content for testing.");
        let request = Content::text("Please process the embedded resource above.");
        Ok(PromptResult::default().saying("user", &resource).saying("user", &request))
    })
    .prompt(Prompt::new("test_prompt_with_image", "Carries a picture."), |_, _| {
        let request = Content::text("Please analyze the image above.");
        Ok(PromptResult::default().saying("user", &Content::image("image/png", PNG)).saying("user", &request))
    })
}

#[derive(Deserialize)]
struct Two {
    arg1: String,
    arg2: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Embedding {
    resource_uri: String,
}

fn completed(kit: Kit) -> Kit {
    kit.completion(|call| match (&call.of, call.argument.as_ref()) {
        (CompletionOf::Prompt(name), "arg1") if name == "test_prompt_with_arguments" => {
            let fits = ["paris", "park", "party", "testing"].into_iter().filter(|word| word.starts_with(&*call.value));
            let values: Vec<String> = fits.map(str::to_owned).collect();
            let total = values.len().try_into().ok();
            Some(Completion { values, total, has_more: Some(false), extra: Vec::new() })
        }
        _ => None,
    })
}

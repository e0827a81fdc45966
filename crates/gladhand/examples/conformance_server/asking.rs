//! Tools that ask their caller during a call: by a separate request or by `input_required`, depending on the session.

use gladhand::hub::{Answer, Kit, Reporter};
use gladhand::negotiation::Side;
use gladhand::operations::{Failure, Prompt, PromptResult, Question, Tool, ToolResult};
use gladhand::wire::RawValue;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) fn kit() -> Kit {
    rounds(one_question(elicitations(Kit::new())))
}

/// The questions of tools of the handshake era; on a stateless wire they work as well.
fn elicitations(kit: Kit) -> Kit {
    let ask_user = json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
    let ask_model = json!({"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]});
    kit.slow_tool(
        Tool::plain("test_elicitation", "Asks the user for a name and an address.").taking(&ask_user),
        |call, reporter| async move {
            let MessageInput { message } = call.read()?;
            let schema = form(&[("username", json!({"type": "string"})), ("email", json!({"type": "string"}))]);
            let answer = reporter.ask(Question::form(&message, &schema)).await?;
            Ok(ToolResult::text(&format!("User response: {}", summary(&answer))))
        },
    )
    .slow_tool(
        Tool::plain("test_sampling", "Asks the caller's model.").taking(&ask_model),
        |call, reporter| async move {
            let Ask { prompt } = call.read()?;
            let answer = reporter.ask(sample(&prompt)).await?;
            Ok(ToolResult::text(&format!("LLM response: {}", said(&answer))))
        },
    )
    .slow_tool(
        Tool::plain("test_elicitation_sep1034_defaults", "Asks with a default for everything."),
        |_, reporter| elicit(reporter, defaults()),
    )
    .slow_tool(Tool::plain("test_elicitation_sep1330_enums", "Asks with every kind of choice."), |_, reporter| {
        elicit(reporter, choices())
    })
    .slow_tool(
        Tool::plain("test_streaming_elicitation", "Asks the user while its answer is awaited."),
        |_, reporter| elicit(reporter, form(&[("name", json!({"type": "string"}))])),
    )
}

async fn elicit(reporter: Reporter, schema: Value) -> Result<ToolResult, Failure> {
    let answer = reporter.ask(Question::form("Please fill this in.", &schema)).await?;
    Ok(ToolResult::text(&format!("Elicitation completed: {}", summary(&answer))))
}

fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": true},
        },
    })
}

fn choices() -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = |word: &str| {
        json!([
            {"const": "value1", "title": format!("First {word}")},
            {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")},
        ])
    };
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
        },
    })
}

fn one_question(kit: Kit) -> Kit {
    let tool = |what: &str, description: &str| Tool::plain(format!("test_input_required_result_{what}"), description);
    kit.slow_tool(tool("elicitation", "Asks the user for a name."), |_, reporter| async move {
        let answer = reporter.ask(ask_name("What is your name?").named("user_name")).await?;
        Ok(ToolResult::text(&format!("Hello, {}!", field(&answer, "name")?)))
    })
    .slow_tool(tool("sampling", "Asks the caller's model."), |_, reporter| async move {
        let answer = reporter.ask(sample("What is the capital of France?").named("capital_question")).await?;
        Ok(ToolResult::text(&said(&answer)))
    })
    .slow_tool(tool("list_roots", "Asks for the caller's folders."), |_, reporter| async move {
        let answer = reporter.ask(Question::roots().named("client_roots")).await?;
        Ok(ToolResult::text(&format!("The roots are {}", answer.get())))
    })
    .slow_tool(tool("request_state", "Asks the user to confirm."), |_, reporter| async move {
        confirm(&reporter).await?;
        Ok(ToolResult::text("state-ok"))
    })
    .slow_tool(tool("tampered_state", "Asks the user to confirm."), |_, reporter| async move {
        confirm(&reporter).await?;
        Ok(ToolResult::text("The state was as it was left."))
    })
    .slow_tool(Tool::plain("test_missing_capability", "Needs the caller's model."), |_, reporter| async move {
        let answer = reporter.ask(sample("Is anybody there?")).await?;
        Ok(ToolResult::text(&said(&answer)))
    })
    .prompt(Prompt::new("test_input_required_result_prompt", "Asks the user for the context."), |_, context| {
        let reporter = context.reporter();
        Ok(Answer::later(async move {
            let question =
                Question::form("What context should the prompt use?", &form(&[("context", json!({"type": "string"}))]));
            let answer = reporter.ask(question.named("user_context")).await?;
            Ok(PromptResult::text(&format!("Use this context: {}", field(&answer, "context")?)))
        }))
    })
}

fn rounds(kit: Kit) -> Kit {
    let tool = |what: &str, description: &str| Tool::plain(format!("test_input_required_result_{what}"), description);
    kit.slow_tool(tool("multiple_inputs", "Asks three things at once."), |_, reporter| async move {
        let questions = vec![
            ask_name("What is your name?").named("user_name"),
            sample("Generate a greeting").named("greeting"),
            Question::roots().named("client_roots"),
        ];
        let answers: Vec<Box<RawValue>> = reporter.ask_all(questions).await.into_iter().collect::<Result<_, _>>()?;
        Ok(ToolResult::text(&format!("{} answers came.", answers.len())))
    })
    .slow_tool(tool("multi_round", "Asks one thing after the other."), |_, reporter| async move {
        let name = reporter.ask(ask_name("Step 1: What is your name?").named("step1")).await?;
        let schema = form(&[("color", json!({"type": "string"}))]);
        let color = Question::form("Step 2: What is your favorite color?", &schema);
        let color = reporter.ask(color.named("step2")).await?;
        Ok(ToolResult::text(&format!("{} likes {}.", field(&name, "name")?, field(&color, "color")?)))
    })
    .tool(tool("capabilities", "Asks only what its caller can answer."), |_, context| {
        let can = |capability: &str| context.agreement.allows(Side::Client, capability);
        let mut questions = Vec::new();
        if can("elicitation") {
            questions.push(ask_name("What is your name?").named("user_name"));
        }
        if can("sampling") {
            questions.push(sample("Generate a greeting").named("greeting"));
        }
        let reporter = context.reporter();
        Ok(Answer::later(async move {
            let answers: Vec<Box<RawValue>> =
                reporter.ask_all(questions).await.into_iter().collect::<Result<_, _>>()?;
            Ok(ToolResult::text(&format!("{} answers came.", answers.len())))
        }))
    })
}

#[derive(Deserialize)]
struct MessageInput {
    message: String,
}

#[derive(Deserialize)]
struct Ask {
    prompt: String,
}

/// A form of these fields, all of which must be filled in.
pub(crate) fn form(fields: &[(&str, Value)]) -> Value {
    let properties: serde_json::Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

pub(crate) fn ask_name(message: &str) -> Question {
    Question::form(message, &form(&[("name", json!({"type": "string"}))]))
}

fn sample(text: &str) -> Question {
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    Question::sample(&json!({"messages": [message], "maxTokens": 100}))
}

async fn confirm(reporter: &Reporter) -> Result<(), Failure> {
    let question = Question::form("Please confirm", &form(&[("ok", json!({"type": "boolean"}))]));
    reporter.ask(question.named("confirm")).await.map(drop)
}

fn summary(answer: &RawValue) -> String {
    let answer: Value = serde_json::from_str(answer.get()).unwrap_or_default();
    let action = answer["action"].as_str().unwrap_or("none");
    format!("action={action}, content={}", answer["content"])
}

/// A field of a form that was filled in.
pub(crate) fn field(answer: &RawValue, name: &str) -> Result<String, Failure> {
    let answer: Value = serde_json::from_str(answer.get()).unwrap_or_default();
    let field = answer["content"][name].as_str();
    field.map(str::to_owned).ok_or_else(|| Failure::invalid_argument(name, "the form was not filled in"))
}

/// The text of a model's answer.
fn said(answer: &RawValue) -> String {
    let answer: Value = serde_json::from_str(answer.get()).unwrap_or_default();
    answer["content"]["text"].as_str().unwrap_or_default().to_owned()
}

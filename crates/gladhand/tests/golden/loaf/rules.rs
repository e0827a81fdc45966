//! Differences from the reference in all recordings, each rule with its reason.

use serde_json::{Value, json};

/// Methods that we have beyond the 29.
const FURTHER_METHODS: [&str; 4] = ["session.approve", "session.delete", "session.list", "tools.call"];

/// Tools that we have beyond the 20: two more of the workbench, and those of the repository.
const FURTHER_TOOLS: [&str; 5] = ["agreement", "echo", "glob_files", "run_python", "wait"];

/// Requests to models that are not compared: the recording, which one, and why.
const OWN_REQUESTS: [(&str, usize, &str); 4] = [
    ("43_openrouter_tool_failures", 2, "arguments that are not JSON are not sent back, since services refuse them"),
    ("51_openai_tool_roundtrip", 3, "a call that came twice under one id is answered once"),
    ("54_antigravity", 2, "thoughts are not sent back, and calls have ids"),
    ("74_compress_command", 5, "§15.3: a summary without text is a failure, and the history stays"),
];

/// Whether what a model is asked is compared.
pub(super) fn is_compared(file: &str, request: usize) -> bool {
    !OWN_REQUESTS.iter().any(|(own, at, _)| *own == file && *at == request)
}

/// The messages that a model receives, in the format of each service; the instructions are our own.
pub(super) fn conversation(body: &Value) -> Option<Value> {
    let told = body.get("messages").or_else(|| body.get("input")).or_else(|| body.pointer("/request/contents"))?;
    let told = told.as_array()?.iter().filter(|said| said["role"] != "system").cloned().map(|mut said| {
        let is_instruction =
            |text: &str| text.starts_with("Provide a detailed prompt") || text.starts_with("Write the hand-over");
        if said["content"].as_str().is_some_and(is_instruction) {
            said["content"] = json!("a summary, please");
        }
        said
    });
    Some(told.collect())
}

/// A recording, changed before it is played.
pub(super) fn rewritten(file: &str, text: String) -> String {
    match file {
        // §15.2: a turn is preceded by a compaction when instructions and conversation are more than fits. Our
        // instructions are shorter, so the conversation has to be longer by as much.
        "75_auto_compaction" => {
            let text = text.replace("\"lorem ", &format!("\"{}", "lorem ".repeat(761)));
            text.replace("\"answer_length\":20399", "\"answer_length\":24959")
                .replace("\"conversation_tokens\":5143", "\"conversation_tokens\":6283")
        }
        // A machine may be slow: instead of a while, what runs in the background is waited for.
        "45_bash_state_and_background" => text
            .replace("echo got:$x", "echo got:$x; touch said")
            .replace("\"sleep 0.3\"", "\"until [ -e said ]; do sleep 0.05; done; sleep 0.3\"")
            .replace("\\\"sleep 0.3\\\"", "\\\"until [ -e said ]; do sleep 0.05; done; sleep 0.3\\\""),
        "47_js_tools" => text
            .replace(
                "d=>console.log('got',String(d).trim())",
                "d=>{console.log('got',String(d).trim());import('fs').then(f=>f.writeFileSync('said',''))}",
            )
            .replace("sleep 0.4", "until [ -e said ]; do sleep 0.05; done"),
        // A tool that the model made is marked as such in its file, so that rules for the operator's tools do not cover
        // it. Its code is data there, so that loading the file runs none of it.
        "46_custom_and_persistent_tool" => text.replace(&json_text(RECORDED_TOOL), &json_text(OUR_TOOL)),
        // §16.5: the service is configured by its base address.
        "48_search_web" => text.replace("\"path\":\"/exa\"", "\"path\":\"/exa/search\""),
        _ => text,
    }
}

/// The file of a created tool, as the reference writes it.
const RECORDED_TOOL: &str = r#"export default {
  name: "adder",
  description: "adds",
  args: {
    "type": "object",
    "properties": {
      "a": {
        "type": "number"
      },
      "b": {
        "type": "number"
      }
    }
  },
  async run(input, context) {
    return {sum: input.a + input.b};
  },
};
"#;

/// The same file, as we write it.
const OUR_TOOL: &str = r#"// Made by create_persistent_tool.
const tool = {
  "name": "adder",
  "description": "adds",
  "args": {"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}},
  "body": "return {sum: input.a + input.b};"
};
const AsyncFunction = (async () => {}).constructor;
export default { ...tool, run: new AsyncFunction("input", "context", '"use strict";\n' + tool.body) };
"#;

/// A text as a JSON string.
fn json_text(text: &str) -> String {
    Value::from(text).to_string()
}

/// Converts a recorded message to our form.
pub(super) fn recorded(answer: &mut Value) {
    // §20 item 3: our own name is an additional member, and `methods` lists what is callable.
    if let Some(methods) = answer.pointer_mut("/result/methods").and_then(Value::as_array_mut) {
        methods.extend(FURTHER_METHODS.map(Value::from));
        methods.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        answer["result"]["implementation"] = json!({"name": "gladhand", "version": env!("CARGO_PKG_VERSION")});
    }
    // §20 item 5: a better server says `unknown_session`.
    if answer
        .pointer("/error/message")
        .and_then(Value::as_str)
        .is_some_and(|text| text.starts_with("unknown session: "))
    {
        answer["error"]["data"]["reason"] = json!("unknown_session");
    }
    // §9.4: we say who we are where the reference says that it is another product.
    if let Some(Value::String(url)) = answer.pointer_mut("/params/payload/url") {
        *url = url.replace("originator=codex_cli_rs", "originator=gladhand");
        // §19.2, antigravity callback: with PKCE.
        if url.starts_with("https://accounts.google.com/") {
            url.push_str("&code_challenge_method=S256");
        }
    }
    without_texts_of_models(answer);
}

/// Removes members of our messages that the recordings do not have.
pub(super) fn heard(answer: &mut Value) {
    for place in ["/result/tools", "/result/output/tools"] {
        if let Some(tools) = answer.pointer_mut(place).and_then(Value::as_array_mut) {
            tools.retain(|tool| !FURTHER_TOOLS.iter().any(|name| tool["name"] == *name));
        }
    }
    // §19.2, tool text glued together: the text stays as it is, and `segments` is offered.
    let mut without_segments = |message: &mut Value| {
        let is_offered =
            message["segments"].as_array().is_some_and(|texts| texts.len() > 1 && texts.iter().all(Value::is_string));
        if let Some(message) = message.as_object_mut().filter(|_| is_offered) {
            message.remove("segments");
        }
    };
    answer.pointer_mut("/params/payload/message").map(&mut without_segments);
    let messages = answer.pointer_mut("/result/messages").and_then(Value::as_array_mut);
    messages.into_iter().flatten().for_each(without_segments);
    // §19.2, openrouter not streamed: we stream it, and ask for the usage then.
    if let Some(request) = answer.pointer_mut("/params/payload/data/payload").and_then(Value::as_object_mut)
        && request.remove("stream_options").is_some()
    {
        request.insert("stream".to_owned(), json!(false));
    }
    without_texts_of_models(answer);
}

/// The instructions and tool descriptions that models receive are our own.
fn without_texts_of_models(answer: &mut Value) {
    let Some(request) = answer.pointer_mut("/params/payload/data/payload") else { return };
    if let Some(tools) = request.get_mut("tools") {
        *tools = json!("tools");
    }
    let messages = request.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten().filter(|message| message["role"] == "system") {
        message["content"] = json!("instructions");
    }
}

//! Custom tools from a folder, and tools that the model creates.

use std::path::Path;

use gladhand_agent_tools::{Run, ToolProvider, ToolSettings};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::{Shop, needs};

fn put(settings: &ToolSettings, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = settings.data.join("tools").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[tokio::test]
async fn the_list_is_as_recorded() {
    #[derive(Deserialize)]
    struct Line {
        msg: Option<Message>,
    }
    #[derive(Deserialize)]
    struct Message {
        result: Option<Listed>,
    }
    #[derive(Deserialize)]
    struct Listed {
        tools: Vec<Tool>,
    }
    #[derive(Deserialize)]
    struct Tool {
        name: String,
        description: String,
        input_schema: Box<RawValue>,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts/loaf/25_tools_list.ndjson");
    let recording = std::fs::read_to_string(path).unwrap();
    let mut lines = recording.lines().map(|line| serde_json::from_str::<Line>(line).unwrap());
    let recorded = lines.find_map(|line| Some(line.msg?.result?.tools)).unwrap();

    let shop = Shop::with(|settings| settings.extras = false).await;
    let tools = shop.tools.tools();
    assert_eq!((tools.len(), recorded.len()), (20, 20));
    for (tool, recorded) in tools.iter().zip(&recorded) {
        assert_eq!((&tool.name, &tool.description), (&recorded.name, &recorded.description));
        assert_eq!(tool.input_schema.as_ref().unwrap().get(), recorded.input_schema.get());
    }
}

#[tokio::test]
async fn files_of_all_forms_are_loaded_and_invalid_ones_left_out() {
    needs("node");
    let shop = Shop::with(|settings| {
        settings.extras = false;
        put(settings, &[
            ("a_default.mjs", "export default {name:'echo_text',description:' echo input ',args:{type:'object',properties:{text:{type:'string'}},required:['text'],additionalProperties:false},run(i){return {echoed:String(i.text??'')}}};"),
            ("b_named.mjs", "export const tool={name:'sum.numbers',inputSchema:{properties:{a:{type:'number'}},required:[1]},run(i){return 1}};"),
            ("sub/c_meta.mjs", "export const meta={name:'ns:meta-tool',description:'meta'};export async function run(){return null}"),
            ("d_common.cjs", "module.exports={name:'common_tool',run(){return undefined}};"),
            ("e_badname.mjs", "export default {name:'bad name!',run(){}};"),
            ("f_dup.mjs", "export default {name:'bash',run(){}};"),
            ("g_throws.mjs", "throw new Error('boom');"),
            ("h_none.mjs", "export const x=1;"),
            ("i.ts", "export default {name:'ts_tool',run(){}};"),
            ("node_modules/j.mjs", "export default {name:'inner',run(){}};"),
        ]);
    })
    .await;
    let tools = shop.tools.tools();
    let custom: Vec<_> = tools
        .iter()
        .filter(|tool| ["echo_text", "sum.numbers", "ns:meta-tool", "common_tool"].contains(&tool.name.as_str()))
        .map(|tool| {
            let schema = tool.input_schema.as_ref().map(|schema| schema.get().to_owned());
            (tool.name.as_str(), tool.description.as_str(), schema)
        })
        .collect();
    assert_eq!(tools.len(), 24);
    let echo =
        r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}"#;
    let sum = r#"{"type":"object","properties":{"a":{"type":"number"}}}"#;
    assert_eq!(
        custom,
        [
            ("common_tool", "custom tool from d_common.cjs", None),
            ("echo_text", "echo input", Some(echo.to_owned())),
            ("ns:meta-tool", "meta", None),
            ("sum.numbers", "custom tool from b_named.mjs", Some(sum.to_owned())),
        ]
    );
    let said = shop.call("common_tool", json!({})).await;
    assert_eq!((said.ok, said.written.as_str()), (true, "null"));
    assert_eq!(shop.call("echo_text", json!({"text": "a\nb"})).await.written, r#"{"echoed":"a\nb"}"#);
}

#[tokio::test]
async fn results_of_custom_tools_are_as_recorded() {
    needs("node");
    let shop = Shop::with(|settings| {
        put(settings, &[
            ("fail.mjs", "export default {name:'fail.tool',run(){return {ok:false,output:{why:'no'},error:'nope'}}};"),
            ("thrower.mjs", "export default {name:'thrower',run(){throw new Error('kaput')}};"),
            ("noisy.mjs", "export default {name:'noisy',run(){console.log('{}');process.stdout.write('0:0 {}\\n');return 'done'}};"),
            ("waits.mjs", "export default {name:'waits',run(i,{signal}){return new Promise((_,no)=>signal.addEventListener('abort',()=>no(new Error('told to stop'))))}};"),
            ("hangs.mjs", "export default {name:'hangs',run(i){if(i.hang)for(;;){}return 'back'}};"),
        ]);
    })
    .await;
    let said = shop.call("fail.tool", json!({})).await;
    assert_eq!((said.ok, said.written.as_str(), said.error.as_deref()), (false, r#"{"why":"no"}"#, Some("nope")));
    let said = shop.call("thrower", json!({})).await;
    assert_eq!(said.written, r#"{"callId":"c1","tool":"thrower","status":"error"}"#);
    assert_eq!(said.error.as_deref(), Some("kaput"));
    assert_eq!(shop.call("noisy", json!({})).await.written, "\"done\"");

    let stopped = CancellationToken::new();
    stopped.cancel();
    let said = shop.call_for("session", "waits", json!({}), &stopped).await;
    assert_eq!(said.error.as_deref(), Some("told to stop"));
    let said = shop.call_for("session", "hangs", json!({"hang": true}), &stopped).await;
    assert_eq!(said.error.as_deref(), Some("the tool was stopped"));
    assert_eq!(shop.call("hangs", json!({})).await.written, "\"back\"", "a new process takes over");
    shop.tools.close().await;
}

#[tokio::test]
async fn the_model_creates_tools() {
    needs("node");
    let shop = Shop::open().await;
    let adder = json!({"name": "adder", "description": "adds", "handler_code": "return {sum: input.a + input.b};"});
    let said = shop.call("create_persistent_tool", adder.clone()).await;
    assert!(said.ok, "{said:?}");
    let path = shop.home.path().join("data/tools/adder.mjs");
    assert_eq!(
        said.written,
        format!(
            r#"{{"status":"ok","message":"persistent tool created and loaded: adder","tool_name":"adder","path":"{}","overwritten":false}}"#,
            path.display()
        )
    );
    assert_eq!(shop.call("adder", json!({"a": 2, "b": 3})).await.written, r#"{"sum":5}"#);
    assert!(shop.tools.tools().iter().any(|tool| tool.name == "adder" && tool.description == "adds"));

    let said = shop.call("create_persistent_tool", adder).await;
    let message = format!("tool file already exists: {}. set overwrite=true to replace.", path.display());
    assert_eq!(said.output, json!({"status": "invalid_input", "message": message}));
    let built_in = json!({"name": "bash", "description": "x", "handler_code": "return 1", "overwrite": true});
    let said = shop.call("create_persistent_tool", built_in).await;
    assert_eq!(said.error.as_deref(), Some("cannot overwrite built-in tool: bash"));

    let broken = json!({"name": "adder", "description": "x", "handler_code": "return {", "overwrite": true});
    assert!(shop.call("create_persistent_tool", broken).await.error.unwrap().contains("was not kept"));
    assert_eq!(shop.call("adder", json!({"a": 2, "b": 3})).await.written, r#"{"sum":5}"#);
    let better = json!({"name": "adder", "description": "x", "handler_code": "return 7;", "overwrite": true});
    assert_eq!(shop.call("create_persistent_tool", better).await.output["overwritten"], true);
    assert_eq!(shop.call("adder", json!({})).await.written, "7");
}

#[tokio::test]
async fn a_replaced_tool_is_not_run_in_place_of_the_offered_one() {
    needs("node");
    let shop = Shop::open().await;
    let make = |code: &str| json!({"name": "adder", "description": "x", "handler_code": code, "overwrite": true});
    assert!(shop.call("create_persistent_tool", make("return 1;")).await.ok);
    let (folder, cancel, input) = (shop.folder(), CancellationToken::new(), serde_json::from_str("{}").unwrap());
    let offered = shop.order("adder", input, &folder, &cancel);
    assert!(shop.tools.tools().iter().any(|tool| tool.name == "adder" && tool.is_made_by_model));
    assert!(shop.call("create_persistent_tool", make("return 2;")).await.ok);
    assert!(shop.run(offered).await.error.unwrap().contains("was replaced"));
    let unoffered = Run { edition: 0, ..shop.order("adder", input, &folder, &cancel) };
    assert_eq!(shop.run(unoffered).await.error.unwrap(), "unknown tool: adder");
    assert_eq!(shop.call("adder", json!({})).await.written, "2");
}

#[tokio::test]
async fn a_tool_that_the_model_created_is_still_marked_after_a_restart() {
    needs("node");
    let shop = Shop::open().await;
    let made = json!({"name": "adder", "description": "x", "handler_code": "return 1;"});
    assert!(shop.call("create_persistent_tool", made).await.ok);
    let extra = json!({"name": "run_python", "description": "x", "handler_code": "return 1;"});
    assert!(shop.call("create_persistent_tool", extra).await.error.unwrap().contains("cannot overwrite"));
    let again = gladhand_agent_tools::ToolSet::open(ToolSettings::new(shop.home.path().join("data")));
    again.ready().await;
    assert!(again.tools().iter().any(|tool| tool.name == "adder" && tool.is_made_by_model));
    again.close().await;
}

#[tokio::test]
async fn a_created_tool_is_written_as_data() {
    needs("node");
    let shop = Shop::open().await;
    // The input is text, because a parsed value would not keep the order of members.
    let input = r#"{"name":"adder","description":"adds","handler_code":"return {sum: input.a + input.b};","args_schema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}}}"#;
    let folder = shop.folder();
    let run = Run {
        name: "create_persistent_tool",
        edition: 0,
        call_id: "c1",
        input: serde_json::from_str(input).unwrap(),
        session: "session",
        folder: &folder,
        is_workspace: true,
        approved: &[],
        cancel: &CancellationToken::new(),
    };
    assert!(shop.tools.run(run).await.ok);
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(
        read(&shop.home.path().join("data/tools/adder.mjs")),
        r#"// Made by create_persistent_tool.
const tool = {
  "name": "adder",
  "description": "adds",
  "args": {"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}},
  "body": "return {sum: input.a + input.b};"
};
const AsyncFunction = (async () => {}).constructor;
export default { ...tool, run: new AsyncFunction("input", "context", '"use strict";\n' + tool.body) };
"#
    );
}

/// Code that ends its function and the object around it, and then writes a file.
fn escaping(target: &Path) -> String {
    let write = format!("(await import('node:fs')).writeFileSync({target:?}, 'x');");
    format!("return 1 }}}};\n{write}\nvar y = {{ async run() {{")
}

#[tokio::test]
async fn no_code_of_a_created_tool_runs_before_a_call_of_it() {
    needs("node");
    let shop = Shop::open().await;
    let (escaped, called) = (shop.folder().join("escaped"), shop.folder().join("called"));
    let make = |name: &str, code: &str| json!({"name": name, "description": "x", "handler_code": code});
    let endings = ["};\nvar y = {a(){", "\n}, a: 1};\nvar y = {a(){", "/*", "}); (async function() {"];
    let write = format!("(await import('node:fs')).writeFileSync({escaped:?}, 'x');");
    for code in endings.map(|ending| format!("return 1 }}{ending}{write}")).iter().chain([&escaping(&escaped)]) {
        let said = shop.call("create_persistent_tool", make("escapes", code)).await;
        assert!(said.error.unwrap().contains("was not kept"), "{code}");
        assert!(!shop.home.path().join("data/tools/escapes.mjs").exists(), "{code}");
    }
    let code = format!("(await import('node:fs')).writeFileSync({called:?}, 'x'); return this.name;");
    assert!(shop.call("create_persistent_tool", make("writes", &code)).await.ok);
    let again =
        Shop { tools: gladhand_agent_tools::ToolSet::open(ToolSettings::new(shop.home.path().join("data"))), ..shop };
    again.tools.ready().await;
    assert!(again.tools.tools().iter().any(|tool| tool.name == "writes"));
    assert!(!escaped.exists() && !called.exists());
    assert_eq!(again.call("writes", json!({})).await.written, "\"writes\"");
    assert!(called.exists());
    again.tools.close().await;
}

#[tokio::test]
async fn created_tools_of_earlier_versions_are_replaced_without_running_them() {
    needs("node");
    let old = |name: &str, code: &str| {
        format!(
            "// Made by create_persistent_tool.\nexport default {{\n  name: \"{name}\",\n  description: \"old\",\n  \
             async run(input, context) {{\n    {code}\n  }},\n}};\n"
        )
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let escaped = elsewhere.path().join("escaped");
    let changed = format!("// Made by create_persistent_tool.\n{}", escaping(&escaped).replace("return 1 }};", ""));
    let shop = Shop::with(|settings| {
        let escapes = old("escapes", &escaping(&escaped));
        put(
            settings,
            &[("plain.mjs", &old("plain", "return input.a;")), ("escapes.mjs", &escapes), ("changed.mjs", &changed)],
        );
    })
    .await;
    let tools = shop.tools.tools();
    let names: Vec<_> = tools.iter().filter(|tool| tool.is_made_by_model).map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["escapes", "plain"]);
    assert_eq!(shop.call("plain", json!({"a": 2})).await.written, "2");
    assert!(shop.call("escapes", json!({})).await.error.is_some());
    assert!(!escaped.exists(), "no code outside of the function runs, even in a call");
    shop.tools.close().await;
}

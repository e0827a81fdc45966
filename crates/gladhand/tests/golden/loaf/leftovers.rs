//! The processes of tools after the end of a session: none that we started remains.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gladhand_models::scripted::Reply;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::faults::{Client, provider, runtime, streamed};
use super::stage::Stage;
use crate::support::PATIENCE;

/// Starts a child, one that leaves its group, and one that leaves its group, its parent and its environment; the ids of all
/// go into the file that is named.
fn family(file: &Path) -> String {
    let file = file.display();
    format!(
        r#"sleep 600 & echo $! >> {file}
        setsid sh -c 'echo $$ >> {file}; exec sleep 600' &
        setsid env -i /bin/sh -c '(/bin/sh -c "echo \$\$ >> {file}; exec /bin/sleep 600" &)' &
        echo $$ >> {file}
        "#
    )
}

/// A model's wish to have tools called.
fn calls(wishes: &[(&str, Value)]) -> Reply {
    let calls: Vec<_> = wishes
        .iter()
        .enumerate()
        .map(|(at, (tool, input))| {
            let function = json!({"name": tool, "arguments": input.to_string()});
            json!({"index": at, "id": format!("call-{at}"), "type": "function", "function": function})
        })
        .collect();
    let wish = json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    Reply::events(&[wish, end, json!("[DONE]")])
}

fn ids(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Whether a process exists and is more than a zombie.
fn is_alive(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A server whose session runs the tool calls of a model, once all processes in the file have started.
struct Scene {
    client: Client,
    session: Value,
    file: PathBuf,
    _rest: (Stage, gladhand_models::scripted::ScriptedProvider, tokio::runtime::Runtime),
}

impl Scene {
    fn with(count: usize, wishes: impl Fn(&str) -> Vec<(&'static str, Value)>) -> Self {
        let (runtime, stage) = (runtime(), Stage::new());
        let file = stage.work().join("ids");
        let provider = provider(&runtime, vec![calls(&wishes(&family(&file))), streamed(&[json!("done")])]);
        let mut client = Client::start(&stage, &provider);
        let session = client.session();
        client.ask("session.send", json!({"session_id": session, "text": "go"}));
        until("all have started", || ids(&file).len() == count);
        // The shell of a command that ended by itself is gone.
        assert!(ids(&file).iter().filter(|id| is_alive(id)).count() + 1 >= count);
        Self { client, session, file, _rest: (stage, provider, runtime) }
    }

    fn is_over(&self) -> bool {
        !ids(&self.file).iter().any(|id| is_alive(id))
    }
}

#[test]
fn a_killed_server_leaves_no_process_of_its_tools() {
    let scene = Scene::with(20, |family| {
        let background = |terminal: bool| {
            let name = if terminal { "in a terminal" } else { "on pipes" };
            json!({"command": format!("{family} sleep 600"), "run_in_background": true, "session_name": name,
                "full_terminal": terminal})
        };
        let script = json!({"code": format!(
            "const {{spawn}} = await import('node:child_process'); spawn('sh', ['-c', {}]); setTimeout(() => {{}}, 6e5)",
            json!(format!("{family} sleep 600")))});
        vec![
            // A command that has ended by itself leaves a process behind.
            ("bash", json!({"command": family})),
            ("bash", background(true)),
            ("bash", background(false)),
            ("start_background_js", script),
            ("bash", json!({"command": format!("{family} sleep 600")})),
        ]
    });
    scene.client.process.signal(Signal::KILL);
    until("nobody is left", || scene.is_over());
}

#[test]
fn an_interrupt_also_ends_detached_processes() {
    let mut scene = Scene::with(4, |family| vec![("bash", json!({"command": format!("{family} wait; sleep 600")}))]);
    scene.client.ask("session.interrupt", json!({"session_id": scene.session}));
    scene.client.until(|message| message["params"]["payload"]["pending"] == false);
    assert!(scene.is_over(), "the turn ends last");
}

#[test]
fn a_terminal_in_the_background_is_led_by_its_command() {
    let mut scene = Scene::with(1, |family| {
        let file = family.rsplit(' ').map(str::trim).find(|word| !word.is_empty()).expect("it names a file");
        let command = format!("trap 'echo heard; exit 3' INT; echo $$ >> {file}; while :; do sleep 0.05; done");
        vec![("bash", json!({"command": command, "run_in_background": true}))]
    });
    scene.client.until(|message| message["params"]["payload"]["pending"] == false);
    let leader = ids(&scene.file).remove(0);
    let stat = std::fs::read_to_string(format!("/proc/{leader}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let [_, _, group, session, terminal, foreground, ..] = fields.as_slice() else { panic!("{stat}") };
    assert_eq!([group, session, foreground], [&leader.as_str(); 3], "{stat}");
    assert_ne!(*terminal, "0");
}

//! Everything at once: processes, environments and skills that are killed, stall and flood, in sessions that open and
//! close.

use std::sync::Arc;
use std::time::Duration;

use gladhand_a2e_host::env::{Env, EnvSettings, Program};
use gladhand_a2e_host::proc::{Proc, ProcSettings};
use gladhand_a2e_host::skill::{SkillSettings, Skills};
use gladhand_process::starting::{Family, Starter};
use serde_json::{Value, json};

use crate::fixture::{Fixture, Session, gone};

const SESSIONS: u64 = 6;
const ROUNDS: u64 = 12;

/// Each script first writes its process id. Then it exits, stalls, floods, writes a long line, or starts children.
const SCRIPTS: [&str; 6] = [
    "exit 0",
    "trap '' TERM INT; while :; do sleep 0.05; done",
    "yes | head -c 3000000",
    "yes >&2",
    "head -c 2000000 /dev/zero; sleep 1000",
    "sleep 1000 & sleep 1000 & wait",
];

/// Pseudo-random numbers, the same in each run.
fn chance(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// The process ids that the skills of a session have logged.
fn pids(session: &Session) -> Vec<u64> {
    let of = |event: &Value| event["data"]["message"].as_str()?.parse().ok();
    session.events().iter().filter_map(of).collect()
}

async fn processes(session: Arc<Session>, mut seed: u64) -> Vec<u64> {
    let mut started = Vec::new();
    for _ in 0..ROUNDS {
        let script = format!("echo $$; {}", SCRIPTS[(chance(&mut seed) % 6) as usize]);
        let timeout = chance(&mut seed) % 2;
        let asked = json!({"cmd": ["bash", "-c", script], "timeout": timeout});
        let spawned = session.ask("proc/spawn/req", asked).await.expect("a response, also for a refusal");
        if spawned["ok"] == false {
            assert_eq!(spawned["error"], "proc_limit");
        }
        started.extend(spawned["pid"].as_u64().filter(|pid| *pid > 0));
        let id = &spawned["proc_id"];
        let written = json!({"proc_id": id, "data": "x".repeat(100_000), "eof": chance(&mut seed).is_multiple_of(2)});
        session.ask("proc/write/req", written).await.expect("a write request never fails");
        if chance(&mut seed).is_multiple_of(2) {
            let signal = ["SIGTERM", "SIGKILL", "SIGINT"][(chance(&mut seed) % 3) as usize];
            session.ask("proc/kill/req", json!({"proc_id": id, "signal": signal})).await.expect("a known signal");
        }
        session.ask("proc/status/req", json!({"proc_id": ""})).await.expect("a status request never fails");
        session.catch_up();
    }
    session.leave();
    started
}

async fn environments(session: Arc<Session>, mut seed: u64) -> Vec<u64> {
    let mut started = Vec::new();
    for _ in 0..ROUNDS {
        let Ok(begun) = session.ask("env/reset/req", json!({"env_name": "program"})).await else { continue };
        started.extend(begun["obs"]["state"]["pid"].as_u64());
        let id = &begun["obs"]["episode_id"];
        let word = ["die", "stall", "flood", "step"][(chance(&mut seed) % 4) as usize];
        // Any outcome is fine, but there must be one.
        let _ = session.ask("env/step/req", json!({"episode_id": id, "action": {"type": word}})).await;
        if chance(&mut seed).is_multiple_of(2) {
            session.ask("env/close/req", json!({"episode_id": id})).await.expect("the episode exists");
        }
        session.catch_up();
    }
    session.leave();
    started
}

async fn skills(session: Arc<Session>, mut seed: u64) -> Vec<u64> {
    for _ in 0..ROUNDS / 3 {
        let name = (chance(&mut seed) % 6).to_string();
        let _ = session.ask("skill/call/req", json!({"name": name, "timeout": 1})).await;
        session.catch_up();
    }
    session.leave();
    pids(&session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_process_is_left_after_a_stress_run() {
    let starter: Arc<dyn Starter> = Arc::new(Family);
    let grace = Duration::from_millis(100);
    let allowed = vec!["bash".to_owned()];
    let limits = ProcSettings { allowed, grace, max_running: 6, max_output_bytes: 40_000, ..ProcSettings::default() };
    let script = r#"while read -r line; do
        id=${line#*\"id\":}; id=${id%%[,\}]*}
        case $line in
            *'"die"'*) exit 1 ;;
            *'"stall"'*) trap '' TERM; while :; do sleep 0.05; done ;;
            *'"flood"'*) while :; do echo '{"push":{"delta":{"noise":1}}}'; done ;;
            *) echo "{\"id\":$id,\"obs\":{\"state\":{\"pid\":$$}}}" ;;
        esac
    done"#;
    let command = ["bash", "-c", script].map(str::to_owned).to_vec();
    let program = Program { grace, timeout: 3 * grace, ..Program::new("program", command) };
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in SCRIPTS.iter().enumerate() {
        let folder = folder.path().join(name.to_string());
        std::fs::create_dir(&folder).unwrap();
        let run = json!(format!("echo $$; {script}"));
        std::fs::write(folder.join("skill.md"), format!("---\nrun: [bash, -c, {run}]\n---\n")).unwrap();
    }
    let folders = vec![folder.path().to_owned()];
    let of_skills = SkillSettings { folders, max_output_bytes: 40_000, ..SkillSettings::default() };
    let fixtures = [
        Fixture::with(Proc::new(limits, Arc::clone(&starter))),
        Fixture::with(Env::new(EnvSettings { programs: vec![program], ..EnvSettings::default() }, &starter)),
        Fixture::with(Skills::new(of_skills, starter, None)),
    ];
    let mut load = tokio::task::JoinSet::new();
    for seed in 0..SESSIONS {
        // Half of the sessions read slowly.
        let window = if seed.is_multiple_of(2) { 50 } else { usize::MAX };
        let [one, two, three] = fixtures.each_ref().map(|fixture| Arc::new(fixture.session_that_reads(window)));
        load.spawn(processes(one, seed));
        load.spawn(environments(two, seed));
        load.spawn(skills(three, seed));
    }
    let started: Vec<u64> = load.join_all().await.into_iter().flatten().collect();
    assert!(started.len() > 50, "{}", started.len());
    for fixture in &fixtures {
        fixture.closed().await;
    }
    for pid in started {
        gone(pid).await;
    }
}

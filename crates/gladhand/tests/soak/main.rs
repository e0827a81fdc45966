//! 200 clients before one `gladhand serve` with ten servers behind it that break all the time, whose configuration changes
//! under way, and which is itself killed: every call is answered exactly once, nothing is left behind, and nothing grows.
//!
//! A minute of it runs with the other tests; `cargo xtask soak` runs it for any time.
#![cfg(target_os = "linux")]

#[path = "../support/bridge.rs"]
mod bridge;
#[allow(dead_code, reason = "it is written for other tests, too")]
#[path = "../http/client.rs"]
mod client;
mod clients;
mod gate;
mod house;
#[path = "../support/mod.rs"]
mod support;
mod tally;

use std::time::Duration;

use rustix::process::Signal;

use clients::{ASKABLE, Caller, Surroundings, by_a_bridge};
use gate::Gate;
use house::{House, Plan, UPSTREAMS, Weight, all_are_open, patiently, tools};
use tally::{Chance, Tally};

/// How long it runs with the other tests.
const SECONDS: u64 = 50;
/// How many come over HTTP, half of them with sessions.
const OVER_HTTP: usize = 190;
/// How many come by a bridge of their own.
const BY_BRIDGES: usize = 10;
/// Those who can be asked something have a way of their own to one server each.
const OWN_WAYS: usize = OVER_HTTP.div_ceil(ASKABLE as usize);
/// How many times the house is killed.
const KILLED: u32 = 3;
/// Between two deaths of servers: those that die more often are not started again at once.
const PEACE: Duration = Duration::from_millis(1200);
/// Between two changes of the configuration.
const STEADY: Duration = Duration::from_secs(4);
/// How much heavier the house may be at a later mark than at the first. The memory in use depends on which calls
/// coincide, and allocators keep freed memory. Measured growth is five megabytes in the first minute, and ever less
/// after it. A leak of 300 bytes in a call is more than this within a minute, and one of 30 within ten.
const SLACK: u64 = 12 * 1024 * 1024;
/// How many more files it may have open: four for each server that runs now and did not then.
const MORE_FILES: usize = 4 * (1 + OWN_WAYS);

#[test]
fn every_call_is_answered_once_and_nothing_is_left_or_grows() {
    let asked = std::env::var("GLADHAND_SOAK_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let lasts = Duration::from_secs(asked.unwrap_or(SECONDS));
    let (house, gate, tally) = (House::build(), Gate::default(), Tally::default());
    let around = Surroundings { house: &house, gate: &gate, tally: &tally };
    std::thread::scope(|scope| {
        let _guard = gate.guard();
        let begin = |steps: Box<dyn FnOnce() + Send>| {
            scope.spawn(|| {
                let _guard = gate.guard();
                steps();
            });
        };
        for seed in 0..OVER_HTTP as u64 {
            begin(match seed % 2 {
                0 => Box::new(move || Caller::new(around, seed).in_sessions()),
                _ => Box::new(move || Caller::new(around, seed).without_sessions()),
            });
        }
        for seed in 1..=BY_BRIDGES as u64 {
            begin(Box::new(move || by_a_bridge(around, Chance(0x2545_f491_4f6c_dd1d ^ seed))));
        }
        for _ in 0..KILLED {
            assert!(gate.goes_on_after(lasts / 3 / KILLED), "somebody gave up");
            house.kill_and_start_again();
        }
        begin(Box::new(move || kill_now_and_then(around)));
        begin(Box::new(move || change_now_and_then(around)));
        let everybody = OVER_HTTP + BY_BRIDGES + 2;
        let mark = |after: Duration| {
            assert!(gate.goes_on_after(after), "somebody gave up");
            let (weight, answered) = gate.while_closed(everybody, || {
                all_are_open(&house);
                (house.weight(), tally.sum().0)
            });
            println!("after {answered} answers: {weight:?}");
            weight
        };
        let first = mark(lasts / 6);
        let marks = (lasts.as_secs() as u32 / 60).max(2);
        let later: Vec<_> = (0..marks).map(|_| mark(lasts / 2 / marks)).collect();
        assert_no_growth(first, &later);
        gate.end();
    });
    let (answered, otherwise) = tally.sum();
    println!("{answered} calls were answered; otherwise: {otherwise:?}");
    assert!(answered > 1000, "only {answered} calls were answered; otherwise: {otherwise:?}");
    house.stop();
}

fn assert_no_growth(first: Weight, later: &[Weight]) {
    let most = UPSTREAMS + 1 + OWN_WAYS;
    for mark in later {
        assert!(mark.bytes <= first.bytes + SLACK, "it grew: {first:?} {later:?}");
        assert!(mark.files <= first.files + MORE_FILES, "files stay open: {first:?} {later:?}");
        assert!(mark.servers <= most, "servers are left over, there should be {most} at most: {later:?}");
    }
}

/// Kills servers, one at a time.
fn kill_now_and_then(around: Surroundings<'_>) {
    let mut chance = Chance(0xdead_beef_cafe);
    while around.gate.goes_on_after(PEACE) {
        let running = around.house.servers();
        if !running.is_empty() {
            bridge::signal(running[chance.below(running.len() as u64) as usize], Signal::KILL);
        }
    }
}

/// Changes the configuration: servers become others, one comes and goes, the policy is another; and now and then the file
/// is none.
fn change_now_and_then(around: Surroundings<'_>) {
    const POLICIES: [&str; 3] = [
        "",
        "[[policy.rules]]\ntools = [\"*__twice\"]\neffect = \"deny\"\n",
        "[[policy.limits]]\ntools = [\"*__flood\"]\nconcurrent = 1\ntogether = true\n",
    ];
    let mut plan = Plan::default();
    for change in 1.. {
        if !around.gate.goes_on_after(STEADY) {
            return;
        }
        if change % 4 == 0 {
            around.house.spoil();
        }
        plan.editions[change % UPSTREAMS] += 1;
        plan.has_extra = !plan.has_extra;
        plan.policy = POLICIES[change % POLICIES.len()];
        around.house.rewrite(&plan);
        let is_shown = |tools: &[String]| tools.iter().any(|tool| tool.starts_with("extra__"));
        patiently("the change is seen", || (is_shown(&tools(around.house)) == plan.has_extra).then_some(()));
    }
}

//! `memory` compared with a simple model: after any sequence of requests, both find the same entries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use gladhand_a2e_host::memory::MemorySettings;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::memory::{Mind, fixture};

const TIERS: [&str; 4] = ["working", "episodic", "semantic", "dream"];
const WORDS: [&str; 5] = ["red", "redder", "blue", "fish", "ox"];
const QUERIES: [&str; 6] = ["", "RED", "blue fish", "ox", "o", "nowhere"];
const TAGS: [&str; 3] = ["x", "y", "z"];

#[derive(Debug, Clone)]
enum Step {
    Store { who: usize, tier: usize, key: Key, tags: Vec<usize>, words: Vec<usize>, ttl: u64 },
    Retrieve { who: usize, tier: Option<usize>, keys: Vec<Key>, tags: Vec<usize>, query: usize, high: bool },
    Forget { who: usize, tier: Option<usize>, keys: Vec<Key>, tags: Vec<usize> },
    Pass(u64),
}

/// A small key, and whether its members are written in reverse order.
#[derive(Debug, Clone)]
struct Key {
    number: u8,
    text: bool,
    turned: bool,
}

impl Key {
    /// As text, because `serde_json` values would reorder the members.
    fn written(&self) -> String {
        let (number, text) = (self.number, if self.text { "\"t\"" } else { "null" });
        if self.turned {
            format!(r#"{{"n":{{"c":1,"d":2}},"b":{text},"a":{number}}}"#)
        } else {
            format!(r#"{{"a":{number},"b":{text},"n":{{"d":2,"c":1}}}}"#)
        }
    }

    fn identity(&self) -> (u8, bool) {
        (self.number, self.text)
    }
}

fn step() -> impl Strategy<Value = Step> {
    let key = (0..3_u8, any::<bool>(), any::<bool>()).prop_map(|(number, text, turned)| Key { number, text, turned });
    let keys = || prop::collection::vec(key.clone(), 0..3);
    let tags = || prop::sample::subsequence(vec![0, 1, 2], 0..3);
    let tier = || prop::option::of(0..TIERS.len());
    let words = prop::collection::vec(0..WORDS.len(), 0..4);
    let ttl = prop::sample::select(vec![0, 3, 30]);
    prop_oneof![
        6 => (0..3_usize, 0..TIERS.len(), key.clone(), tags(), words, ttl)
            .prop_map(|(who, tier, key, tags, words, ttl)| Step::Store { who, tier, key, tags, words, ttl }),
        5 => (0..3_usize, tier(), keys(), tags(), 0..QUERIES.len(), any::<bool>())
            .prop_map(|(who, tier, keys, tags, query, high)| Step::Retrieve { who, tier, keys, tags, query, high }),
        2 => (0..3_usize, tier(), keys(), tags())
            .prop_map(|(who, tier, keys, tags)| Step::Forget { who, tier, keys, tags }),
        1 => (1..5_u64).prop_map(Step::Pass),
    ]
}

/// Who sees an entry (a session, an agent, or all agents), then the tier and the key.
type Address = (String, usize, (u8, bool));

#[derive(Debug, Clone)]
struct Known {
    words: Vec<usize>,
    tags: Vec<usize>,
    end: Option<u64>,
    content: String,
}

#[derive(Debug, Default)]
struct Model {
    known: HashMap<Address, Known>,
    now: u64,
    stored: usize,
}

impl Model {
    /// Sessions 0 and 1 belong to one agent, session 2 to another.
    fn owner(who: usize, tier: usize) -> String {
        match TIERS[tier] {
            "working" => format!("session {who}"),
            "semantic" => String::new(),
            _ => format!("agent {}", who / 2),
        }
    }

    fn seen_by(&self, who: usize, tier: Option<usize>) -> impl Iterator<Item = (&Address, &Known)> {
        self.known.iter().filter(move |((owner, of_tier, _), known)| {
            *owner == Self::owner(who, *of_tier)
                && tier.is_none_or(|tier| tier == *of_tier)
                && known.end.is_none_or(|end| end > self.now)
        })
    }
}

fn answers(query: &str, words: &[usize]) -> bool {
    let query = query.to_lowercase();
    let has = |sought: &str| {
        words.iter().any(|&word| if sought.len() < 3 { WORDS[word] == sought } else { WORDS[word].starts_with(sought) })
    };
    query.is_empty() || query.split(' ').any(has)
}

fn named(tags: &[usize]) -> Value {
    tags.iter().map(|&tag| TAGS[tag]).collect()
}

fn written(keys: &[Key]) -> String {
    keys.iter().map(Key::written).collect::<Vec<_>>().join(",")
}

/// Sends a message: `begin` as text whose order is kept, then the members of `rest`.
fn ask(mind: &Mind, kind: &'static str, begin: &str, rest: Value) -> Value {
    let rest = rest.to_string();
    let message = format!(r#"{{"memory_id":"{}",{begin},{}"#, mind.id, rest.trim_start_matches('{'));
    let answer = mind.agent.ask_in_text(kind, message).expect("a valid message");
    serde_json::from_str(&answer).expect("a valid JSON answer")
}

fn check(minds: &[Mind; 3], pass: &dyn Fn(u64), steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Pass(seconds) => {
                pass(seconds);
                model.now += seconds;
            }
            Step::Store { who, tier, key, tags, words, ttl } => {
                model.stored += 1;
                let text: Vec<_> = words.iter().map(|&word| WORDS[word]).collect();
                let content = format!("{} #{}", text.join(" "), model.stored);
                let entry = json!({ "tier": TIERS[tier], "tags": named(&tags), "content": content, "ttl": ttl });
                let entry = format!(r#"{{"key":{},{}"#, key.written(), entry.to_string().trim_start_matches('{'));
                ask(&minds[who], "memory/store/req", &format!(r#""entries":[{entry}]"#), json!({ "extra": 1 }));
                let end = (ttl > 0).then_some(model.now + ttl);
                let address = (Model::owner(who, tier), tier, key.identity());
                model.known.insert(address, Known { words, tags, end, content });
            }
            Step::Forget { who, tier, keys, tags } => {
                let unwanted = |(address, known): &(&Address, &Known)| {
                    keys.iter().any(|key| key.identity() == address.2)
                        || tags.iter().any(|tag| known.tags.contains(tag))
                };
                let gone = model.seen_by(who, tier).filter(unwanted);
                let gone: Vec<_> = gone.map(|(address, _)| address.clone()).collect();
                let begin = format!(r#""keys":[{}]"#, written(&keys));
                let rest = json!({ "tier": tier.map_or("", |tier| TIERS[tier]), "tags": named(&tags) });
                let answer = ask(&minds[who], "memory/forget/req", &begin, rest);
                prop_assert_eq!(answer, json!({ "deleted": gone.len() }));
                gone.iter().for_each(|address| drop(model.known.remove(address)));
            }
            Step::Retrieve { who, tier, keys, tags, query, high } => {
                // The model does not compute text scores, so a minimum score is tested only without a text query.
                let min_score = if high && query == 0 { 0.75 } else { 0.0 };
                let base = |known: &Known| {
                    let common = tags.iter().filter(|tag| known.tags.contains(tag)).count();
                    let by_tags = if tags.is_empty() { 0.0 } else { common as f64 / tags.len() as f64 };
                    by_tags + if keys.is_empty() { 0.0 } else { 1.0 } + if tier.is_some() { 0.25 } else { 0.0 }
                };
                let expected: BTreeMap<_, _> = model
                    .seen_by(who, tier)
                    .filter(|(address, _)| keys.is_empty() || keys.iter().any(|key| key.identity() == address.2))
                    .filter(|(_, known)| tags.is_empty() || tags.iter().any(|tag| known.tags.contains(tag)))
                    .filter(|(_, known)| answers(QUERIES[query], &known.words) && base(known) >= min_score)
                    .map(|(_, known)| (known.content.as_str(), base(known)))
                    .collect();
                let begin = format!(r#""keys":[{}]"#, written(&keys));
                let rest = json!({ "tier": tier.map_or("", |tier| TIERS[tier]), "tags": named(&tags),
                    "query": QUERIES[query], "limit": 100, "min_score": min_score });
                let found = ask(&minds[who], "memory/retrieve/req", &begin, rest);
                compare(&found, &expected, query != 0)?;
            }
        }
    }
    Ok(())
}

/// Compares the entries found with the expected ones: contents, and scores without the text part.
fn compare(found: &Value, expected: &BTreeMap<&str, f64>, has_question: bool) -> Result<(), TestCaseError> {
    prop_assert_eq!(&found["total"], &json!(expected.len()));
    let entries = found["entries"].as_array().expect("a list").iter();
    let read = |entry: &Value| (entry["content"].as_str().expect("text").to_owned(), entry["score"].as_f64());
    let found: Vec<_> = entries.map(read).collect();
    let contents: BTreeSet<_> = found.iter().map(|(content, _)| content.as_str()).collect();
    prop_assert_eq!(contents, expected.keys().copied().collect::<BTreeSet<_>>());
    prop_assert!(found.is_sorted_by(|(_, left), (_, right)| left >= right), "{:?}", found);
    for (content, score) in &found {
        let by_text = score.expect("a score is a number") - expected[content.as_str()];
        let bounds = if has_question { 1e-6..=1.0 } else { 0.0..=0.0 };
        prop_assert!(bounds.contains(&by_text), "{} has {} more than it should", content, by_text);
    }
    Ok(())
}

#[test]
fn memory_behaves_like_the_model_for_any_requests() {
    let folder = tempdir().unwrap();
    let fixture = fixture(&folder, MemorySettings::default());
    let cases = AtomicUsize::new(0);
    let run = |steps| {
        let case = cases.fetch_add(1, Ordering::Relaxed);
        let mind = |agent: &str| Mind::in_space(fixture.agent(agent), json!({ "namespace": format!("case {case}") }));
        check(&[mind("ada"), mind("ada"), mind("bob")], &|seconds| fixture.pass(seconds), steps)
    };
    proptest!(ProptestConfig { cases: 256, ..ProptestConfig::default() }, |(steps in prop::collection::vec(step(), 1..40))| {
        run(steps)?;
    });
}

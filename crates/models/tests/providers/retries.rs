//! When a request is retried, after which delay, and when it is not.

use std::sync::Arc;

use async_trait::async_trait;
use gladhand_core::Secret;
use gladhand_models::scripted::Reply;
use gladhand_models::{Credential, ModelError, OpenRouter};
use serde_json::{Value, json};

use crate::stage::{Stage, fails, hear, key, round, run};

const CHAT: &str = "/or/chat/completions";

fn openrouter(stage: &Stage) -> OpenRouter {
    OpenRouter::new(stage.web.clone(), &stage.at("/or"), key()).expect("a valid address")
}

fn slow_down() -> Reply {
    Reply::json(&json!({"error": {"message": "slow down", "code": 429}})).with_status(429)
}

fn says(text: &str) -> Reply {
    Reply::json(&json!({"choices": [{"message": {"content": text}}]}))
}

#[tokio::test]
async fn a_rate_limit_is_retried_with_growing_delays() {
    let stage = Stage::new().await;
    let limited = slow_down().with_header("retry-after-ms", "10");
    stage.says(CHAT, [limited.clone(), limited.clone(), limited, says("finally")]);
    let (_, recorder) = hear(&openrouter(&stage), &round("m", "a")).await;
    assert_eq!(recorder.answers(), ["finally"]);
    assert_eq!(stage.clock.waits(), [10, 10, 1500]);
    assert_eq!(recorder.stage_names(), ["request", "retry_429", "response_raw"]);
    assert_eq!(
        *recorder.stage("retry_429"),
        json!({"toolRound": 1, "attempt": 1, "maxAttempts": 8, "delayMs": 1500, "error": "429 slow down"})
    );
}

#[tokio::test]
async fn a_persistent_rate_limit_fails_after_eight_attempts() {
    let stage = Stage::new().await;
    stage.says(CHAT, std::iter::repeat_n(slow_down(), 100));
    let (heard, recorder) = run(&openrouter(&stage), &round("m", "a")).await;
    assert_eq!(heard.unwrap_err(), ModelError::Status { status: 429, message: "slow down".to_owned() });
    assert_eq!(stage.provider.requests().len(), 8 * 3);
    let long: Vec<u128> = stage.clock.waits().into_iter().filter(|wait| *wait > 1000).collect();
    assert_eq!(long, [1500, 2750, 5250, 10_250, 20_250, 20_250, 20_250]);
    let attempts: Vec<&Value> =
        recorder.stages.iter().filter(|(stage, _)| *stage == "retry_429").map(|(_, data)| &data["attempt"]).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn an_error_text_about_a_rate_limit_is_retried_until_output_was_received() {
    let stage = Stage::new().await;
    let error = json!({"error": {"message": "Rate limit reached"}});
    let word = json!({"choices": [{"delta": {"content": "a"}}]});
    stage.says(CHAT, [Reply::events(std::slice::from_ref(&error)), Reply::events(&[word, error])]);
    let (heard, recorder) = run(&openrouter(&stage), &round("m", "a")).await;
    assert_eq!(heard.unwrap_err().to_string(), "OpenRouter stream failed: Rate limit reached");
    assert_eq!((recorder.answers(), stage.clock.waits()), (vec!["a"], vec![1500]));
}

#[tokio::test]
async fn temporary_failures_are_tried_three_times() {
    for status in [408, 409, 500, 503] {
        let stage = Stage::new().await;
        stage.says(CHAT, std::iter::repeat_n(Reply::text("unwell").with_status(status), 5));
        assert_eq!(fails(&openrouter(&stage), &round("m", "a")).await, format!("{status} unwell"));
        assert_eq!(stage.clock.waits(), [500, 1000]);
        assert_eq!(stage.provider.requests().len(), 3);
    }
}

#[tokio::test]
async fn other_failures_are_not_retried() {
    for (reply, expected) in [
        (Reply::text("no model").with_status(404), "404 no model"),
        (Reply::text("").with_status(400), "400 status code (no body)"),
        (Reply::text("elsewhere").with_status(302).with_header("location", "http://127.0.0.1:9/"), "302 elsewhere"),
    ] {
        let stage = Stage::new().await;
        stage.says(CHAT, [reply]);
        assert_eq!(fails(&openrouter(&stage), &round("m", "a")).await, expected);
        assert_eq!((stage.provider.requests().len(), stage.clock.waits().len()), (1, 0));
    }
}

#[tokio::test]
async fn connections_that_fail_are_tried_three_times() {
    let stage = Stage::new().await;
    stage.says(CHAT, [Reply::broken(), Reply::broken(), says("third time lucky")]);
    let (_, recorder) = hear(&openrouter(&stage), &round("m", "a")).await;
    assert_eq!((recorder.answers(), stage.clock.waits()), (vec!["third time lucky"], vec![500, 1000]));

    // The port was bound and released, so connections to it fail.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/or", listener.local_addr().unwrap());
    drop(listener);
    let stage = Stage::new().await;
    let models = OpenRouter::new(stage.web.clone(), &nowhere, key()).unwrap();
    assert_eq!(fails(&models, &round("m", "a")).await, "Connection error.");
    assert_eq!(stage.clock.waits(), [500, 1000]);
}

/// A token that can be renewed.
#[derive(Debug)]
struct Renewable;

#[async_trait]
impl Credential for Renewable {
    async fn token(&self) -> Result<Secret, ModelError> {
        Ok(Secret::new("old"))
    }

    async fn another(&self, refused: &Secret) -> Option<Secret> {
        assert_eq!(refused.expose(), "old");
        Some(Secret::new("new"))
    }
}

#[tokio::test]
async fn a_rejected_token_is_renewed_once() {
    let stage = Stage::new().await;
    let denied = || Reply::text("denied").with_status(401);
    stage.says(CHAT, [denied(), says("welcome"), denied(), denied(), says("never")]);
    let models = OpenRouter::new(stage.web.clone(), &stage.at("/or"), Arc::new(Renewable)).unwrap();
    let (_, recorder) = hear(&models, &round("m", "a")).await;
    assert_eq!(recorder.answers(), ["welcome"]);
    assert_eq!(fails(&models, &round("m", "b")).await, "401 denied");
    let shown: Vec<String> =
        stage.provider.requests().iter().map(|asked| asked.headers["authorization"].clone()).collect();
    assert_eq!(shown, ["Bearer old", "Bearer new", "Bearer old", "Bearer new"]);
}

use gladhand_models::Usage;

use super::*;
use crate::testing::{load_echo, round, user};

/// Collects an answer, and cancels after this many pieces.
struct Heart {
    said: String,
    pieces_left: usize,
    cancel: CancellationToken,
}

#[async_trait]
impl Listener for Heart {
    async fn piece(&mut self, piece: Piece) {
        for segment in piece.segments {
            let Segment::Answer(text) = segment else { panic!("a thought: {segment:?}") };
            self.said.push_str(&text);
        }
        self.pieces_left -= 1;
        if self.pieces_left == 0 {
            self.cancel.cancel();
        }
    }

    async fn debug(&mut self, stage: &'static str, _: Box<gladhand_core::wire::RawValue>) {
        assert_eq!(stage, "request");
    }
}

fn model(file: &str) -> LocalModel {
    LocalModel::new(&Path::new("/models").join(file), load_echo)
}

async fn ask(model: &LocalModel, text: &str, most: usize) -> (String, Result<RoundResult, ModelError>) {
    let cancel = CancellationToken::new();
    let mut heart = Heart { said: String::new(), pieces_left: most, cancel: cancel.clone() };
    let end = model.round(&round(vec![user(text)]), &mut heart, &cancel).await;
    (heart.said, end)
}

#[tokio::test]
async fn a_round_streams_pieces_and_then_returns_usage() {
    let (said, end) = ask(&model("small.gguf"), "héllo", 100).await;
    assert_eq!(said, "héllo");
    let heard = end.unwrap();
    assert!(heard.calls.is_empty());
    assert_eq!(heard.usage.map(|usage| usage.output_tokens), Some(6));
    assert_ne!(heard.usage, Some(Usage::default()));
}

#[tokio::test]
async fn the_catalogue_shows_the_name_of_the_model_file() {
    let catalogue = model("SmolLM2-135M-Instruct.Q4_1.gguf").catalogue().await.unwrap();
    assert_eq!(catalogue.len(), 1);
    assert_eq!(catalogue[0].label, "SmolLM2-135M-Instruct (local)");
    assert_eq!((catalogue[0].id.as_str(), catalogue[0].provider.as_str()), ("SmolLM2-135M-Instruct", "local"));
}

#[tokio::test]
async fn a_cancelled_round_ends_and_the_next_one_is_answered() {
    let model = model("small.gguf");
    let (said, end) = ask(&model, &"a".repeat(200), 3).await;
    assert_eq!((said.as_str(), end.unwrap_err()), ("aaa", ModelError::Cancelled));
    assert_eq!(ask(&model, "again", 100).await.0, "again");
}

#[tokio::test]
async fn a_round_cancelled_before_its_start_has_no_output() {
    let model = model("small.gguf");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let mut heart = Heart { said: String::new(), pieces_left: 1, cancel: cancel.clone() };
    let end = model.round(&round(vec![user("hello")]), &mut heart, &cancel).await;
    assert_eq!((heart.said.as_str(), end.unwrap_err()), ("", ModelError::Cancelled));
}

#[tokio::test]
async fn a_dropped_round_does_not_delay_the_next() {
    let model = model("small.gguf");
    let cancel = CancellationToken::new();
    let mut heart = Heart { said: String::new(), pieces_left: usize::MAX, cancel: cancel.clone() };
    let asked = round(vec![user(&"a".repeat(300))]);
    let mut forgotten = Box::pin(model.round(&asked, &mut heart, &cancel));
    assert!(
        std::future::poll_fn(|context| std::task::Poll::Ready(forgotten.as_mut().poll(context).is_pending())).await
    );
    drop(forgotten);
    assert_eq!(ask(&model, "next", 100).await.0, "next");
}

#[tokio::test]
async fn an_unloadable_model_fails_every_round() {
    let model = model("broken");
    for _ in 0..2 {
        let (said, end) = ask(&model, "hello", 100).await;
        assert_eq!(said, "");
        let why = end.unwrap_err().to_string();
        assert_eq!(why, "could not load the local model /models/broken: that is no model");
    }
}

#[tokio::test]
async fn a_dead_worker_thread_fails_its_round_and_is_replaced() {
    let dies = LocalModel::new(Path::new("x"), |_| panic!("on purpose"));
    for _ in 0..2 {
        assert_eq!(ask(&dies, "hello", 100).await.1.unwrap_err(), died());
    }
}

//! Chat completions: the protocol of OpenRouter and of every compatible server.

mod compatible;
mod llamacpp;
mod ollama;
mod openrouter;
mod reply;
mod request;

pub use compatible::Compatible;
pub use openrouter::OpenRouter;

pub(crate) use compatible::PROVIDER as COMPATIBLE;
pub(crate) use llamacpp::PROVIDER as LLAMACPP;
pub(crate) use ollama::PROVIDER as OLLAMA;
pub(crate) use openrouter::PROVIDER as OPENROUTER;

use crate::exchange::{Exchange, Reply, payload};
use crate::web::Request;
use crate::{ModelError, RoundResult};

/// Runs a round with this request, and repeats it while a rate limit allows another attempt.
async fn run(exchange: &mut Exchange<'_>, request: &Request) -> Result<RoundResult, ModelError> {
    exchange
        .debug("request", |fields| fields.and("payload", &payload(request.body.as_deref().unwrap_or_default())))
        .await;
    loop {
        match attempt(exchange, request).await {
            Err(error) => exchange.wait_before_retry(error).await?,
            result => return result,
        }
    }
}

async fn attempt(exchange: &mut Exchange<'_>, request: &Request) -> Result<RoundResult, ModelError> {
    let response = exchange.ask_for_success(request).await?;
    match exchange.reply(response).await? {
        Reply::Events(events) => reply::read_stream(exchange, events).await,
        Reply::Whole(body) => reply::read_document(exchange, &body).await,
    }
}

//! Chat completions: the protocol of OpenRouter and of every compatible server.

mod compatible;
mod openrouter;
mod reply;
mod request;

pub use compatible::Compatible;
pub use openrouter::OpenRouter;

use crate::exchange::{Exchange, Reply, payload};
use crate::web::Request;
use crate::{Heard, ModelError};

/// Runs a round with this request, and repeats it while a rate limit allows another attempt.
async fn run(exchange: &mut Exchange<'_>, request: &Request) -> Result<Heard, ModelError> {
    exchange.debug("request", |told| told.and("payload", &payload(request.body.as_deref().unwrap_or_default()))).await;
    loop {
        match attempt(exchange, request).await {
            Err(error) => exchange.after(error).await?,
            heard => return heard,
        }
    }
}

async fn attempt(exchange: &mut Exchange<'_>, request: &Request) -> Result<Heard, ModelError> {
    let response = exchange.ask_for_success(request).await?;
    match exchange.reply(response).await? {
        Reply::Events(events) => reply::in_pieces(exchange, events).await,
        Reply::Whole(body) => reply::at_once(exchange, &body).await,
    }
}

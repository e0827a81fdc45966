//! The model that `gladhand chat` asks, and where that comes from. Variables are named, and what is in them is not.

use std::path::{Path, PathBuf};

use gladhand_agent::accounts::{Means, Outlook, Provider, env};

use super::Finding;
use crate::agent::LaterAgent;
use crate::commands::chat::WAYS;
use crate::config::AgentConfig;

const ABOUT: &str = "model";

/// The model of a configuration with this data folder.
pub(super) async fn of(config: AgentConfig, data: PathBuf) -> Finding {
    if !config.enabled {
        return Finding::fine(ABOUT, "none is needed: `enabled` of [agent] is off");
    }
    let outlook = LaterAgent::new(config, data.clone()).outlook().await;
    match outlook {
        Err(error) => Finding::broken(ABOUT, error.to_string(), "start it in a folder that is there"),
        Ok(outlook) => finding(&outlook, |provider, means| origin(provider, means, &data)),
    }
}

fn finding(outlook: &Outlook, origin: impl Fn(Provider, Means) -> String) -> Finding {
    match outlook {
        Outlook::Model { model, provider, means } => {
            let origin = origin(*provider, *means);
            Finding::fine(ABOUT, format!("`gladhand chat` asks {model} of {provider}: {origin}"))
        }
        Outlook::Trouble(why) => {
            let advice = "see that it runs and is reached, or choose another: `/model` in `gladhand chat`";
            Finding::broken(ABOUT, why.as_str(), advice)
        }
        Outlook::Unlisted(providers) => {
            let one = |(provider, means): &(Provider, Means)| format!("{provider} ({})", origin(*provider, *means));
            let providers = providers.iter().map(one).collect::<Vec<_>>().join(", ");
            let message = format!("no list of models could be had of {providers}");
            Finding::broken(ABOUT, message, "look at the network, and whether the key or the login still holds")
        }
        Outlook::Nobody => Finding::doubtful(ABOUT, "`gladhand chat` has none to ask", WAYS),
    }
}

/// Where it comes from, in words.
fn origin(provider: Provider, means: Means, data: &Path) -> String {
    match means {
        Means::Login => "the login of `/auth`".to_owned(),
        Means::Key => "the key that `/auth` keeps".to_owned(),
        Means::Variable(name) => format!("the key in the variable {name}"),
        Means::Server(name) if std::env::var(name).is_ok_and(|address| !address.trim().is_empty()) => {
            format!("the server that the variable {name} names")
        }
        Means::Server(env::COMPATIBLE_BASE) => "the server that `compatible_base` of [agent] names".to_owned(),
        Means::Server(_) => format!("the {provider} server on this machine"),
        Means::Program => match file(data) {
            Some(file) => format!("the file {}", file.display()),
            None => "this program".to_owned(),
        },
    }
}

/// The file of the model that runs in this program.
#[cfg(feature = "local-model")]
fn file(data: &Path) -> Option<PathBuf> {
    gladhand_local_model::find(data)
}

/// This build runs no model itself.
#[cfg(not(feature = "local-model"))]
fn file(_: &Path) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn every_outlook_says_where_it_comes_from_or_what_to_do() {
        let key = (Provider::OpenRouter, Means::Variable(env::OPENROUTER_API_KEY));
        let model = Outlook::Model { model: "m".to_owned(), provider: key.0, means: key.1 };
        for (outlook, state, message) in [
            (model, State::Fine, "`gladhand chat` asks m of openrouter: the key in the variable OPENROUTER_API_KEY"),
            (Outlook::Trouble("it is gone".to_owned()), State::Broken, "it is gone"),
            (
                Outlook::Unlisted(vec![key]),
                State::Broken,
                "no list of models could be had of openrouter (the key in the variable OPENROUTER_API_KEY)",
            ),
            (Outlook::Nobody, State::Doubtful, "`gladhand chat` has none to ask"),
        ] {
            let found = finding(&outlook, |provider, means| origin(provider, means, Path::new("/data")));
            assert_eq!((found.state, found.message.as_str()), (state, message));
            assert_eq!(found.advice.is_none(), state == State::Fine);
        }
    }
}

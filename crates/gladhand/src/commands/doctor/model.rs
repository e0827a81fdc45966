//! The model that `gladhand chat` asks, and where that comes from. Variables are named, and what is in them is not.

use std::path::{Path, PathBuf};

use gladhand_agent::accounts::{DefaultModel, ModelAccess, Provider};
use gladhand_models::Requirement;

use super::Finding;
use crate::agent::LaterAgent;
use crate::commands::chat::ways;
use crate::config::AgentConfig;

const ABOUT: &str = "model";

/// The model of a configuration with this data folder.
pub(super) async fn of(config: AgentConfig, data: PathBuf) -> Finding {
    if !config.enabled {
        return Finding::fine(ABOUT, "none is needed: `enabled` of [agent] is off");
    }
    let default_model = LaterAgent::new(config, data.clone()).default_model().await;
    match default_model {
        Err(error) => Finding::broken(ABOUT, error.to_string(), "start it in a folder that is there"),
        Ok(default_model) => finding(&default_model, |provider, access| origin(provider, access, &data)),
    }
}

fn finding(default_model: &DefaultModel, origin: impl Fn(Provider, ModelAccess) -> String) -> Finding {
    match default_model {
        DefaultModel::Model { model, provider, access } => {
            let origin = origin(*provider, *access);
            Finding::fine(ABOUT, format!("`gladhand chat` asks {model} of {provider}: {origin}"))
        }
        DefaultModel::Trouble(why) => {
            let advice = "see that it runs and is reached, or choose another: `/model` in `gladhand chat`";
            Finding::broken(ABOUT, why.as_str(), advice)
        }
        DefaultModel::Unlisted(providers) => {
            let one =
                |(provider, access): &(Provider, ModelAccess)| format!("{provider} ({})", origin(*provider, *access));
            let providers = providers.iter().map(one).collect::<Vec<_>>().join(", ");
            let message = format!("no list of models could be had of {providers}");
            Finding::broken(ABOUT, message, "look at the network, and whether the key or the login still holds")
        }
        DefaultModel::NoProvider => Finding::doubtful(ABOUT, "`gladhand chat` has none to ask", ways()),
    }
}

/// Where it comes from, in words.
fn origin(provider: Provider, access: ModelAccess, data: &Path) -> String {
    match access {
        ModelAccess::Login => "the login of `/auth`".to_owned(),
        ModelAccess::Key => "the key that `/auth` keeps".to_owned(),
        ModelAccess::Variable(name) => format!("the key in the variable {name}"),
        ModelAccess::Server(name) if std::env::var(name).is_ok_and(|address| !address.trim().is_empty()) => {
            format!("the server that the variable {name} names")
        }
        ModelAccess::Server(_) if provider.requires == Requirement::Address => {
            format!("the server that `{provider}_base` of [agent] names")
        }
        ModelAccess::Server(_) => format!("the {provider} server on this machine"),
        ModelAccess::Program => match file(data) {
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
    fn every_model_finding_has_a_source_or_advice() {
        let key = (Provider::OPENROUTER, ModelAccess::Variable("OPENROUTER_API_KEY"));
        let model = DefaultModel::Model { model: "m".to_owned(), provider: key.0, access: key.1 };
        for (default_model, state, message) in [
            (model, State::Fine, "`gladhand chat` asks m of openrouter: the key in the variable OPENROUTER_API_KEY"),
            (DefaultModel::Trouble("it is gone".to_owned()), State::Broken, "it is gone"),
            (
                DefaultModel::Unlisted(vec![key]),
                State::Broken,
                "no list of models could be had of openrouter (the key in the variable OPENROUTER_API_KEY)",
            ),
            (DefaultModel::NoProvider, State::Doubtful, "`gladhand chat` has none to ask"),
        ] {
            let found = finding(&default_model, |provider, access| origin(provider, access, Path::new("/data")));
            assert_eq!((found.state, found.message.as_str()), (state, message));
            assert_eq!(found.advice.is_none(), state == State::Fine);
        }
    }
}

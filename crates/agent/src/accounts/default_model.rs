//! The default model and its credential, for display. It contains no secret.

use super::Accounts;
use gladhand_models::{Provider, Requirement};

/// The model that answers if no other one is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultModel {
    /// This model.
    Model {
        /// The model id.
        model: String,
        /// The provider.
        provider: Provider,
        /// The kind of access.
        access: ModelAccess,
    },
    /// A model is selected or a provider is configured, but it does not work, for this reason.
    Trouble(String),
    /// No model is known: these providers are configured, but their model lists could not be fetched.
    Unlisted(Vec<(Provider, ModelAccess)>),
    /// There is no model, and no provider is configured.
    NoProvider,
}

/// The kind of access to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelAccess {
    /// A login.
    Login,
    /// A stored key.
    Key,
    /// A key in this environment variable.
    Variable(&'static str),
    /// A server whose address this environment variable can set.
    Server(&'static str),
    /// The program itself.
    Program,
}

impl Accounts {
    /// The model that answers if no other one is selected, as far as known now.
    pub fn default_model(&self) -> DefaultModel {
        let chosen = self.chosen(None);
        let Some(provider) = chosen.provider.as_deref().and_then(Provider::of_id) else {
            return self.trouble().map_or_else(|| self.unlisted(), DefaultModel::Trouble);
        };
        let request_failed = self.lock().troubles.get(&provider).cloned();
        match (request_failed, self.ready(&chosen)) {
            (Some(why), _) => DefaultModel::Trouble(why),
            (None, Err(why)) => DefaultModel::Trouble(format!("{} of {provider} was chosen: {why}", chosen.model)),
            (None, Ok(_)) => DefaultModel::Model { model: chosen.model, provider, access: self.access(provider) },
        }
    }

    fn unlisted(&self) -> DefaultModel {
        let mut providers = self.enabled(&self.lock());
        providers.retain(|provider| provider.is_configured() && self.is_usable(*provider));
        match providers.is_empty() {
            true => DefaultModel::NoProvider,
            false => DefaultModel::Unlisted(providers.into_iter().map(|one| (one, self.access(one))).collect()),
        }
    }

    fn access(&self, provider: Provider) -> ModelAccess {
        let is_stored = self.credentials.keeps(provider);
        match (provider.requires, provider.key, provider.base_variable) {
            (Requirement::Credential, Some(key), _) if !is_stored => ModelAccess::Variable(key.variable),
            (Requirement::Credential, ..) if provider.login.is_some() => ModelAccess::Login,
            (Requirement::Credential, ..) => ModelAccess::Key,
            (Requirement::Address | Requirement::LocalServer, _, Some(variable)) => ModelAccess::Server(variable),
            _ => ModelAccess::Program,
        }
    }
}

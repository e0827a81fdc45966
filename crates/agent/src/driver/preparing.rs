//! Prepares a turn before it runs.

use std::sync::{Arc, OnceLock};

use gladhand_core::wire::invisible::strip;
use gladhand_hub::policy::Invisible;
use gladhand_models::Models;

use super::{AgentSettings, Core, Requester};
use crate::accounts::Chosen;
use crate::images::{self, ImageFolders};
use crate::instructions;
use crate::moment::Moment;
use crate::payloads::PendingImage;
use crate::session::{NotReady, Prepared, Target, text_tokens, window_of};
use crate::skills::Skills;

/// The model, instructions and caller of a turn.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) models: Arc<dyn Models>,
    pub(super) chosen: Chosen,
    pub(super) instructions: String,
    pub(super) requester: Requester,
}

impl Core {
    /// Checks whether a turn can run, and prepares it.
    pub(super) fn prepare(&self, id: &str, text: &str, images: &[PendingImage]) -> Result<Prepared, NotReady> {
        let Some((folder, requester)) =
            self.shared().sessions.get(id).map(|entry| (entry.folder.clone(), entry.requester.clone()))
        else {
            return Err(NotReady::NoModel(format!("unknown session: {id}")));
        };
        let home = self.settings.home.as_deref();
        let AgentSettings { roots, secret_files, .. } = &self.settings;
        let folders = ImageFolders { folder: &folder, home, roots, secret_files };
        let images = images::load(images, folders, Moment::now());
        let images = images.map_err(NotReady::BadImage)?;
        let chosen = self.accounts.chosen(Some(id));
        let models = self.accounts.ready(&chosen).map_err(NotReady::NoModel)?;
        let target = target(&chosen, &*models);
        let skills = Skills::scan(&folder, &self.settings.data, home, &self.settings.trusted);
        let named = skills.named_in(text);
        let shown = folder.display().to_string();
        let instructions = instructions::instructions(self.accounts.searches(), &shown, &skills.skills, &named);
        // Other people write skills. A turn cannot run without instructions, so invisible text is stripped in both
        // strict modes.
        let instructions = match self.invisible() {
            Invisible::Show => instructions,
            Invisible::Strip | Invisible::Refuse => strip(&instructions).into_owned(),
        };
        let named = named.iter().map(|skill| skill.name.clone()).collect();
        if !text.is_empty() {
            self.accounts.remember_prompt(text);
        }
        let unsaved = self.chats.is_writable().err().map(|error| error.to_string());
        let setup = Setup { models: Arc::clone(&models), chosen, instructions, requester };
        let mut shared = self.shared();
        shared.skills = skills;
        if let Some(entry) = shared.sessions.get_mut(id) {
            entry.setup = Some(Arc::new(setup));
            entry.summariser = Some(models);
        }
        Ok(Prepared { target, images, skills: named, unsaved })
    }
}

impl Core {
    /// Collects the tools of a turn. Waits for tools that are not loaded yet, unless the turn is stopped.
    pub(super) async fn collect_tools(&self, id: &str) {
        let found = self.with_entry(id, |entry| Some((entry.setup.clone()?, entry.cancel.clone())));
        let Some((setup, cancel)) = found else { return };
        let collect = async {
            self.tool_provider.ready().await;
            self.set_tools(id, &setup).await;
        };
        tokio::select! {
            () = collect => {}
            () = cancel.cancelled() => {}
        }
    }
}

impl Core {
    /// Collects the tools again if the agent has changed during the turn. A tool that a model made is then
    /// subject to its own policy decision.
    pub(super) async fn renew_tools(&self, id: &str) {
        let found = self.with_entry(id, |entry| Some((entry.setup.clone()?, entry.offered_tools.clone()?)));
        if let Some((setup, offered_tools)) = found
            && !offered_tools.is_current(&self.tool_provider.tools())
        {
            self.set_tools(id, &setup).await;
        }
    }

    async fn set_tools(&self, id: &str, setup: &Setup) {
        let offered_tools = self.offered_tools(&setup.requester).await;
        self.update_tool_totals(&offered_tools);
        if let Some(entry) = self.shared().sessions.get_mut(id) {
            entry.offered_tools = Some(Arc::new(offered_tools));
        }
    }
}

/// The target of a turn.
pub(super) fn target(chosen: &Chosen, models: &dyn Models) -> Target {
    let provider = chosen.provider.clone().unwrap_or_else(|| models.provider().to_owned());
    Target { provider, ..target_of(chosen) }
}

/// The target of a turn, even if its provider is unavailable.
pub(super) fn target_of(chosen: &Chosen) -> Target {
    Target {
        provider: chosen.provider.clone().unwrap_or_default(),
        model: chosen.model.clone(),
        thinking: chosen.thinking,
        routing: chosen.routing.clone(),
        window: window_of(&chosen.model, chosen.option.as_ref()),
    }
}

/// The token count of the instructions that every request contains.
pub(super) fn pinned(searches: bool) -> u64 {
    static PLAIN: OnceLock<u64> = OnceLock::new();
    static SEARCHING: OnceLock<u64> = OnceLock::new();
    let reckon = || text_tokens(&instructions::instructions(searches, "", &[], &[]));
    *if searches { &SEARCHING } else { &PLAIN }.get_or_init(reckon)
}

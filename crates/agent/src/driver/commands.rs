//! Slash commands (`loaf` §8).

use std::sync::Arc;

use gladhand_core::operations::Failure;
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::Answer;
use serde::Serialize;

use super::agent::Report;
use super::answers::{Answered, json_answer, later, now, reading, refused};
use super::{Core, preparing};
use crate::text;

/// The commands, in display order.
const COMMANDS: [(&str, &str); 13] = [
    ("/auth", "add auth provider"),
    ("/onboarding", "open setup flow (auth + exa key)"),
    ("/forgeteverything", "wipe local config and restart onboarding"),
    ("/model", "choose model and thinking level"),
    ("/limits", "show oauth usage limits"),
    ("/history", "resume a saved chat (/history, /history last, /history <id>)"),
    ("/compress", "compress conversation context to reduce token usage"),
    ("/skills", "list available skills"),
    ("/tools", "list registered tools"),
    ("/clear", "clear conversation messages"),
    ("/quit", "exit loaf"),
    ("/help", "show available commands"),
    ("/exit", "exit loaf"),
];

impl Core {
    /// Runs a slash command.
    pub(super) fn command(self: &Arc<Self>, id: &str, line: &str) -> Answer {
        if let Err(failure) = self.is_known(id) {
            return now(Err(failure));
        }
        let line = text::trim(line);
        if !line.starts_with('/') {
            return now(Ok(json::raw(r#"{"handled":false}"#.to_owned())));
        }
        let mut words = line.split_whitespace();
        let command = words.next().unwrap_or_default().to_lowercase();
        let accounts = Arc::clone(&self.accounts);
        match &*command {
            "/auth" => handled(json_answer(&Auth { auth_status: accounts.auth_status(), hint: AUTH_HINT })),
            "/onboarding" => handled(Ok(accounts.onboarding())),
            "/forgeteverything" => self.forget_everything(id),
            "/model" => handled(self.model(id)),
            "/limits" => later(async move { accounts.limits().await.map(|limits| output(&limits)) }),
            "/history" => self.history(id, words.next()),
            "/compress" => match self.compress(id) {
                Err(failure) => now(Err(failure)),
                Ok(report) => later(async move {
                    let report = report.await.map_err(|_| refused("the session was deleted"))?.map_err(refused)?;
                    Ok(output(&json::to_raw(&report)))
                }),
            },
            "/skills" => {
                let core = Arc::clone(self);
                reading(move || Ok(output(&core.look_for_skills())))
            }
            "/tools" => {
                let requester = self.shared().sessions.get(id).map(|entry| entry.requester.clone());
                let (core, id) = (Arc::clone(self), id.to_owned());
                later(async move {
                    let requester = requester.ok_or_else(|| Failure::unknown_session(&id))?;
                    core.tool_provider.ready().await;
                    Ok(output(&core.offered_tools(&requester).await.list()))
                })
            }
            "/clear" => self.clear(id, false, |_| json_answer(&CLEARED).map(|cleared| output(&cleared))),
            "/help" => handled(json_answer(&help())),
            "/quit" | "/exit" => {
                self.shut_down("quit_command");
                handled(Ok(json::raw(r#"{"shutting_down":true}"#.to_owned())))
            }
            unknown => handled(json_answer(&serde_json::json!({"error": format!("unknown command: {unknown}")}))),
        }
    }

    fn model(&self, id: &str) -> Answered {
        #[derive(Serialize)]
        struct Model {
            selected_model: String,
            selected_provider: Option<String>,
            selected_thinking: gladhand_models::Thinking,
            selected_openrouter_provider: String,
            available: Box<RawValue>,
            /// Why there is no model although a provider is configured.
            #[serde(skip_serializing_if = "Option::is_none")]
            trouble: Option<String>,
        }
        let chosen = self.accounts.chosen(Some(id));
        let trouble = if chosen.provider.is_none() { self.accounts.trouble() } else { None };
        json_answer(&Model {
            selected_model: chosen.model,
            selected_provider: chosen.provider,
            selected_thinking: chosen.thinking,
            selected_openrouter_provider: chosen.routing,
            available: self.accounts.models(None)?,
            trouble,
        })
    }

    /// Deletes all data, after stopping a running turn.
    fn forget_everything(self: &Arc<Self>, id: &str) -> Answer {
        let session = id.to_owned();
        self.clear(id, true, move |core| {
            let changed = core.accounts.forget_everything()?;
            core.step_now(&session, |it, context| {
                it.note(context, "all local config was cleared. onboarding restarted.");
            })?;
            Ok(output(&core.changed(changed)))
        })
    }

    fn history(self: &Arc<Self>, id: &str, argument: Option<&str>) -> Answer {
        let (core, id) = (Arc::clone(self), id.to_owned());
        match argument {
            None | Some("list" | "all") => reading(move || core.history_list(None, None).map(|listed| output(&listed))),
            Some(argument) => {
                let argument = argument.to_owned();
                reading(move || core.resume(&id, &argument).map(|resumed| output(&resumed)))
            }
        }
    }

    fn compress(self: &Arc<Self>, id: &str) -> Result<Report, Failure> {
        let chosen = self.accounts.chosen(Some(id));
        let models = self.accounts.ready(&chosen);
        let models = models.map_err(|_| refused("select a model first before running /compress"))?;
        let target = preparing::target(&chosen, &*models);
        self.reported(id, Some(models), None, |session, context| session.compress(target, context))
    }
}

/// The hint in the answer to `/auth`.
const AUTH_HINT: &str = "use auth.connect.* and auth.set.* methods for explicit RPC auth flows";
const CLEARED: Gone = Gone { cleared: true };

#[derive(Serialize)]
struct Auth {
    auth_status: Box<RawValue>,
    hint: &'static str,
}

#[derive(Serialize)]
struct Gone {
    cleared: bool,
}

#[derive(Serialize)]
struct Help {
    commands: Vec<Command>,
}

#[derive(Serialize)]
struct Command {
    name: &'static str,
    description: &'static str,
}

fn help() -> Help {
    Help { commands: COMMANDS.iter().map(|(name, description)| Command { name, description }).collect() }
}

fn handled(answered: Answered) -> Answer {
    now(answered.map(|value| output(&value)))
}

fn output(value: &RawValue) -> Box<RawValue> {
    json::raw(format!(r#"{{"handled":true,"output":{value}}}"#))
}

//! Puts a hub under the policy of the configuration, at the start and whenever the file says something else.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::validation::Validation;
use gladhand_hub::Hub;
use gladhand_hub::policy::{Governor, PinMode};
use gladhand_schemas::Schemas;

use crate::audit::Audit;
use crate::config::Config;
use crate::pins::{self, PinFile};
use gladhand_server::Service;

/// How often to check whether a stopped tool was approved.
const LOOK: Duration = Duration::from_millis(500);

/// The work that remains when everything else has ended.
#[derive(Debug)]
#[must_use = "dropping it writes what is left"]
pub(crate) struct Governing(Option<Audit>);

impl Drop for Governing {
    fn drop(&mut self) {
        if let Some(audit) = &self.0 {
            audit.flush();
        }
    }
}

/// Holds what a service does to the policy of the configuration. Where that says nothing, it costs nothing.
pub(crate) fn govern(service: Service, config: &Config, data_dir: Option<&Path>) -> io::Result<(Service, Governing)> {
    let audit = Audit::start(&config.audit)?;
    if let Some(audit) = audit.clone() {
        let governor = Governor::default().audited(Arc::new(audit));
        service.hub().clone().governed(Arc::new(governor));
    }
    apply(service.hub(), config, data_dir)?;
    Ok((service, Governing(audit)))
}

/// Holds a hub to the policy of a configuration, from the next call on. Sessions are told if they may get to see
/// something else. If the configuration cannot be applied, nothing changes.
pub(crate) fn apply(hub: &Hub, config: &Config, data_dir: Option<&Path>) -> io::Result<()> {
    let policy = config.policy.policy(&config.profiles, &config.authorization.tool_scopes);
    let is_pinning = hub.governor().is_some_and(|governor| governor.has_pinboard());
    let pins = match policy.pins {
        PinMode::Warn | PinMode::Stop if !is_pinning => Some(open_pins(data_dir)?),
        _ => None,
    };
    if let Some(file) = &pins {
        watch(hub, file)?;
    }
    let validation = config.policy.validate_arguments.then(|| Arc::new(Schemas) as Arc<dyn Validation>);
    hub.clone().validating(validation).screening(config.policy.invisible);
    hub.violations().handle(config.policy.violations);
    if hub.governor().is_none() && !policy.is_empty() {
        hub.clone().governed(Arc::default());
    }
    let Some(governor) = hub.governor() else { return Ok(()) };
    if let Some(file) = pins {
        governor.pin_on(file);
    }
    if governor.replace(policy) {
        hub.look_again();
    }
    Ok(())
}

fn open_pins(data_dir: Option<&Path>) -> io::Result<Arc<PinFile>> {
    let folder = data_dir.ok_or_else(|| io::Error::other("there is no data folder to keep pins in"))?;
    PinFile::open(folder.join(pins::NAME)).map(Arc::new)
}

/// Admits approved tools again, on a thread that ends soon after the hub.
fn watch(hub: &Hub, file: &Arc<PinFile>) -> io::Result<()> {
    let (hub, file) = (hub.notifier(), Arc::downgrade(file));
    let look = move || {
        loop {
            std::thread::sleep(LOOK);
            let Some(file) = file.upgrade() else { return };
            if file.refresh() {
                hub.look_again();
            }
        }
    };
    std::thread::Builder::new().name("pins".to_owned()).spawn(look).map(drop)
}

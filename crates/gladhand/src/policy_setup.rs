//! Puts a hub under the policy of the configuration, at the start and whenever the file says something else.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use gladhand_core::validation::Validation;
use gladhand_hub::policy::{Governor, PinMode, Record};
use gladhand_hub::{ChangeNotifier, Hub};
use gladhand_schemas::Schemas;

use crate::audit::Audit;
use crate::config::Config;
use crate::line_file::FlushGuard;
use crate::pins::{self, LONGEST_WAIT, PinFile, Updated};
use gladhand_server::Service;

/// How often to check whether a stopped definition was approved.
const LOOK: Duration = Duration::from_millis(500);

/// Holds what a service does to the policy of the configuration. Where that says nothing, it costs nothing.
pub(crate) fn govern(
    service: Service,
    config: &Config,
    data_dir: Option<&Path>,
) -> io::Result<(Service, FlushGuard<Box<Record>>)> {
    let audit = Audit::start(&config.audit)?;
    if let Some(audit) = audit.clone() {
        let governor = Governor::default().audited(Arc::new(audit));
        service.hub().clone().governed(Arc::new(governor));
    }
    apply(service.hub(), config, data_dir)?;
    Ok((service, FlushGuard(audit.map(|audit| audit.queue))))
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
        keep(hub, file)?;
    }
    let validation = config.policy.validate_arguments.then(|| Arc::new(Schemas) as Arc<dyn Validation>);
    hub.clone().validating(validation).screening(config.policy.invisible);
    hub.violations().handle(config.policy.violations);
    if hub.governor().is_none() && !policy.is_empty() {
        hub.clone().governed(Arc::default());
    }
    let Some(governor) = hub.governor() else { return Ok(()) };
    if let Some(file) = &pins {
        governor.pin_on(Arc::clone(file) as _);
    }
    if governor.replace(policy) {
        hub.look_again();
    }
    if let Some(file) = pins {
        // The definitions that are known already are compared before the first session.
        update(&file, &hub.notifier());
    }
    Ok(())
}

fn open_pins(data_dir: Option<&Path>) -> io::Result<Arc<PinFile>> {
    let folder = data_dir.ok_or_else(|| io::Error::other("there is no data folder to keep pins in"))?;
    PinFile::open(folder.join(pins::NAME)).map(Arc::new)
}

/// Updates the pin file, on a thread that ends with the file. It waits for new definitions. Only while a definition is
/// stopped does it look regularly whether a user has approved it.
fn keep(hub: &Hub, file: &Arc<PinFile>) -> io::Result<()> {
    let (hub, updates, file) = (hub.notifier(), file.updates(), Arc::downgrade(file));
    let keep = move || {
        let mut has_stopped = false;
        loop {
            let woken = if has_stopped {
                updates.recv_timeout(LOOK)
            } else {
                updates.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            if woken == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            let Some(file) = file.upgrade() else { return };
            update(&file, &hub);
            has_stopped = file.has_stopped();
        }
    };
    std::thread::Builder::new().name("pins".to_owned()).spawn(keep).map(drop)
}

/// Updates the pin file once, and makes the hub compare again.
fn update(file: &PinFile, hub: &ChangeNotifier) {
    let begun = Instant::now();
    file.update(|updated| match updated {
        // No session stopped waiting for the new definitions, so none of them saw lists without these.
        Updated::Stored if begun.elapsed() < LONGEST_WAIT / 2 => hub.pins_stored(),
        _ => hub.look_again(),
    });
}

//! Puts a hub under the policy of the configuration.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gladhand_hub::Hub;
use gladhand_hub::policy::{Governor, PinMode, Violations};

use crate::Service;
use crate::audit::Audit;
use crate::config::Config;
use crate::pins::{self, PinFile};

/// How often it is looked whether somebody approved a tool that is stopped.
const LOOK: Duration = Duration::from_millis(500);

/// What is to be finished when everything else has ended.
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
pub(crate) fn govern(service: Service, config: &Config, data_dir: Option<PathBuf>) -> io::Result<(Service, Governing)> {
    let service = service.noting(Arc::new(Violations::new(config.policy.violations)));
    let policy = config.policy.policy(&config.profiles);
    let pin = policy.pins;
    let audit = Audit::start(&config.audit)?;
    let is_free = policy.rules.is_empty() && policy.limits.is_empty() && policy.profiles.is_empty();
    if is_free && pin == PinMode::Off && audit.is_none() {
        return Ok((service, Governing(None)));
    }
    let mut governor = Governor::new(policy);
    if let Some(audit) = audit.clone() {
        governor = governor.audited(Arc::new(audit));
    }
    let mut pinned = None;
    if pin != PinMode::Off {
        let folder = data_dir.ok_or_else(|| io::Error::other("there is no data folder to keep pins in"))?;
        let file = Arc::new(PinFile::open(folder.join(pins::NAME))?);
        governor = governor.pinning(Arc::clone(&file) as _);
        pinned = Some(file);
    }
    let service = service.governed(Arc::new(governor));
    if let Some(file) = pinned.filter(|_| pin == PinMode::Stop) {
        watch(service.hub().clone(), file)?;
    }
    Ok((service, Governing(audit)))
}

/// Lets approved tools back in, as long as the process lasts.
fn watch(hub: Hub, file: Arc<PinFile>) -> io::Result<()> {
    let look = move || {
        loop {
            std::thread::sleep(LOOK);
            if file.has_changed() {
                hub.look_again();
            }
        }
    };
    std::thread::Builder::new().name("pins".to_owned()).spawn(look).map(drop)
}

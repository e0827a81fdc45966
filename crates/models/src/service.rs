//! One account at a service: its address, its credential, and the requests for documents.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use url::Url;

use crate::catalogue::Document;
use crate::web::{Base, Request, Web};
use crate::{Credential, ModelError};

/// A service, and the credential for it.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) web: Web,
    /// The name of the service in messages for users.
    pub(crate) name: Cow<'static, str>,
    pub(crate) base: Base,
    credential: Option<Arc<dyn Credential>>,
}

impl Service {
    pub(crate) fn new(
        web: Web,
        name: impl Into<Cow<'static, str>>,
        base: &str,
        credential: Option<Arc<dyn Credential>>,
    ) -> Result<Self, ModelError> {
        Ok(Self { web, name: name.into(), base: Base::parse(base)?, credential })
    }

    /// The address of an endpoint.
    pub(crate) fn endpoint(&self, path: &[&str]) -> Url {
        self.base.join(path)
    }

    pub(crate) fn credential(&self) -> Option<&dyn Credential> {
        self.credential.as_deref()
    }

    /// Requests a document, with any status.
    pub(crate) async fn document(&self, request: &Request) -> Result<Document, ModelError> {
        Document::ask(self, request).await
    }

    /// Requests a JSON document.
    pub(crate) async fn json(&self, request: &Request) -> Result<Value, ModelError> {
        self.document(request).await?.read(&self.name)
    }
}

//! The verbs of a kind over HTTP. Each parses options and body, calls the registry, and responds in
//! the negotiated representation.
//!
//! Checks come in this order: the representation, the options, the media type, the body. So the
//! body is read last.

use bytes::Bytes;
use http::StatusCode;
use http::header::USER_AGENT;
use http::request::Parts;

use super::app::App;
use super::codec::{self, Accepted, Answer};
use super::content_type::{self, Media};
use super::entrance::Entrance;
use super::respond::{self, Response};
use super::watch_stream::{self, Lines};
use super::write::{BodyEncoding, Verb, Write};
use super::{representation, web_socket};
use ballast_auth::{Attributes, Permission, ResourceAttributes};
use ballast_base::clock::Clock;
use ballast_k8s::{DeleteOptions, GetOptions, ListOptions, Object, Patch, Query, Status, User, WriteOptions};
use ballast_registry::{Caller, Deleted, Locator, MayCreate, Warnings, Written};
use ballast_resource::Lifetime;

/// One request for a kind.
pub struct Call<'a> {
    pub app: &'a App,
    pub user: &'a User,
    pub warnings: &'a Warnings,
    pub parts: &'a Parts,
    pub query: &'a Query<'a>,
    pub target: Locator,
    pub entrance: &'a Entrance<'a>,
}

const BODY_MEDIA: [&str; 2] = ["application/json", "application/yaml"];
const PATCH_MEDIA: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

impl Call<'_> {
    pub async fn get(&self) -> Result<Response, Status> {
        let accepted = self.negotiate(Answer::Object)?;
        let options = GetOptions::from_query(self.query)?;
        let object = self.app.registry.get(&self.target, &options).await?;
        self.object(&object, StatusCode::OK, accepted)
    }

    pub async fn list(&self) -> Result<Response, Status> {
        let accepted = self.negotiate(Answer::List)?;
        let options = ListOptions::from_query(self.query)?;
        let list = self.app.registry.list(&self.target, &options).await?;
        representation::list(self.clock(), self.query, &self.app.registry, &self.target.row, list, accepted)
    }

    pub async fn watch(&self) -> Result<Response, Status> {
        let accepted = self.negotiate(Answer::Watch)?;
        let options = ListOptions::from_query(self.query)?;
        let socket = match web_socket::is_asked_for(&self.parts.headers) {
            true => Some(web_socket::handshake(self.parts).await?),
            false => None,
        };
        self.entrance.enter().await?;
        let watch = self.app.registry.watch(&self.target, &options).await?;
        self.entrance.watches()?;
        let (clock, shutdown, registry) = (&self.app.clock, &self.app.shutdown, &self.app.registry);
        let events = Lines::of(clock, shutdown, registry, self.query, &self.target.row, watch, accepted)?;
        Ok(match socket {
            Some(socket) => socket.send(events, self.parts),
            None => watch_stream::response(events, accepted),
        })
    }

    pub async fn create(&self) -> Result<Response, Status> {
        let answer = match self.target.row.lifetime {
            Lifetime::Stored => Answer::Object,
            Lifetime::Action => Answer::Plain,
        };
        let accepted = self.negotiate(answer)?;
        let options = self.write_options("CreateOptions")?;
        let encoding = self.body_encoding()?;
        self.write(Verb::Create(encoding), options, accepted).await
    }

    pub async fn update(&self) -> Result<Response, Status> {
        let accepted = self.negotiate(Answer::Object)?;
        let options = self.write_options("UpdateOptions")?;
        let encoding = self.body_encoding()?;
        self.write(Verb::Update(encoding), options, accepted).await
    }

    pub async fn patch(&self) -> Result<Response, Status> {
        let media = content_type::patch(&self.parts.headers);
        if media == Media::ApplyYaml {
            return self.apply().await;
        }
        let accepted = self.negotiate(Answer::Object)?;
        let options = self.write_options("PatchOptions")?;
        WriteOptions::refuse_force(self.query)?;
        let read: fn(&[u8]) -> Result<Patch, Status> = match media {
            Media::JsonPatch => Patch::json,
            Media::MergePatch => Patch::merge,
            _ => return Err(Status::unsupported_media_type(&PATCH_MEDIA)),
        };
        self.write(Verb::Patch(read), options, accepted).await
    }

    /// Server-side apply. Applying an object that does not exist creates it, and the user must be
    /// authorized to do that (PA14).
    async fn apply(&self) -> Result<Response, Status> {
        let accepted = self.negotiate(Answer::Object)?;
        let options = WriteOptions::from_query("PatchOptions", self.query)?;
        options.require_manager()?;
        let text = self.text().await?;
        let apply = async |may| {
            let write = Write { verb: Verb::Apply(may), text: text.clone(), options: options.clone() };
            write.run(&self.app.registry, self.caller(), &self.target).await
        };
        let written = match apply(MayCreate::Unknown).await? {
            Some(written) => Some(written),
            None => {
                self.authorize_create().await?;
                apply(MayCreate::Yes).await?
            }
        };
        let written = written.ok_or_else(|| Status::internal("an apply was neither made nor refused"))?;
        self.written(&written, accepted)
    }

    async fn write(&self, verb: Verb, options: WriteOptions, accepted: Accepted) -> Result<Response, Status> {
        let text = self.text().await?;
        let write = Write { verb, text, options };
        let written = write.run(&self.app.registry, self.caller(), &self.target).await?;
        let written = written.ok_or_else(|| Status::internal("a write was neither made nor refused"))?;
        self.written(&written, accepted)
    }

    async fn authorize_create(&self) -> Result<(), Status> {
        let row = &self.target.row;
        let attributes = Attributes::Resource(ResourceAttributes {
            verb: "create",
            group: row.group,
            version: row.version,
            resource: row.plural,
            subresource: "",
            namespace: self.target.namespace.as_deref().unwrap_or_default(),
            name: self.target.name.as_deref().unwrap_or_default(),
            ..ResourceAttributes::default()
        });
        match self.app.authorizer.decide(self.user, &attributes).await {
            Permission::Allow(_) => Ok(()),
            Permission::Deny(reason) => Err(attributes.forbidden(self.user, &reason)),
            Permission::Failed(why) => Err(Status::internal(why)),
        }
    }

    /// Without a field manager in the query, the name of the client is the manager (AP10).
    fn write_options(&self, kind: &str) -> Result<WriteOptions, Status> {
        let user_agent = self.parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
        WriteOptions::from_query(kind, self.query).map(|options| options.or_user_agent(user_agent.unwrap_or_default()))
    }

    pub async fn delete(&self) -> Result<Response, Status> {
        let accepted = self.negotiate(Answer::Object)?;
        let options = self.delete_options().await?;
        match self.app.registry.delete(self.caller(), &self.target, &options).await? {
            Deleted::Gone(status) => Ok(respond::value(StatusCode::OK, accepted, &status)),
            Deleted::Pending(object) => {
                let code = if options.accepted_when_pending { StatusCode::ACCEPTED } else { StatusCode::OK };
                self.object(&object, code, accepted)
            }
        }
    }

    pub async fn delete_collection(&self) -> Result<Response, Status> {
        let accepted = self.negotiate(Answer::List)?;
        let which = ListOptions::from_query(self.query)?;
        let options = self.delete_options().await?;
        let list = self.app.registry.delete_collection(self.caller(), &self.target, &which, &options).await?;
        representation::list(self.clock(), self.query, &self.app.registry, &self.target.row, list, accepted)
    }

    /// Returns the body, once the request holds a permit.
    async fn text(&self) -> Result<Bytes, Status> {
        self.entrance.text(self.app.registry.stored_bytes(&self.target)).await
    }

    fn caller(&self) -> Caller<'_> {
        Caller { user: self.user, warnings: self.warnings }
    }

    fn clock(&self) -> &dyn Clock {
        self.app.clock.as_ref()
    }

    fn negotiate(&self, answer: Answer) -> Result<Accepted, Status> {
        codec::negotiate(&self.parts.headers, answer)
    }

    /// Responds with one object of the requested kind.
    fn object(&self, object: &Object, code: StatusCode, accepted: Accepted) -> Result<Response, Status> {
        let row = &self.target.row;
        representation::object(self.clock(), self.query, &self.app.registry, row, object, code, accepted)
    }

    fn written(&self, written: &Written, accepted: Accepted) -> Result<Response, Status> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = self.object(&written.object, code, accepted)?;
        respond::warn(&mut response, &written.warnings);
        Ok(response)
    }

    async fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let text = self.text().await?;
        if text.is_empty() {
            return DeleteOptions::from_query_and_body(self.query, None);
        }
        let body = self
            .body_encoding()?
            .read(&text)
            .map_err(|error| Status::bad_request(format!("couldn't get version/kind; json parse error: {error}")))?;
        DeleteOptions::from_query_and_body(self.query, Some(body.value))
    }

    fn body_encoding(&self) -> Result<BodyEncoding, Status> {
        match content_type::object(&self.parts.headers) {
            Media::Json => Ok(BodyEncoding::Json),
            Media::Yaml => Ok(BodyEncoding::Yaml),
            Media::Protobuf if let Some(shape) = self.target.row.protobuf => Ok(BodyEncoding::Protobuf(shape)),
            _ => Err(Status::unsupported_media_type(&BODY_MEDIA)),
        }
    }
}

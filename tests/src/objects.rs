//! A small in-memory object store over HTTP, with the conditions of S3 for a PUT and no others:
//! `If-None-Match: *` requires that no object exists, `If-Match` requires an object with this ETag.
//!
//! As in S3, the ETag depends only on the content: equal contents have equal ETags, whatever their
//! metadata. Signatures, versions, parts and buckets are not supported.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};

use crate::server::Server;

/// The metadata header that a PUT sets and a GET returns.
pub const METADATA: &str = "x-amz-meta-fence";

/// The handling of the conditions of a PUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conditions {
    Kept,
    /// Ignored, as in some stores that otherwise behave like S3.
    Ignored,
}

#[derive(Debug, Clone)]
struct Object {
    content: Vec<u8>,
    metadata: Option<String>,
}

impl Object {
    fn etag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.content.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

#[derive(Debug)]
struct Shelf {
    conditions: Conditions,
    objects: BTreeMap<String, Object>,
    refused: u64,
}

#[derive(Debug)]
pub struct ObjectStore {
    shelf: Arc<Mutex<Shelf>>,
    server: Server,
}

impl ObjectStore {
    pub fn start(conditions: Conditions) -> Self {
        let shelf = Shelf {
            conditions,
            objects: BTreeMap::new(),
            refused: 0,
        };
        let shelf = Arc::new(Mutex::new(shelf));
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shelf));
        Self {
            server: Server::start(router),
            shelf,
        }
    }

    pub fn url(&self, name: &str) -> String {
        format!("http://{}/bucket/{name}", self.server.address)
    }

    /// The content of an object.
    pub fn content(&self, name: &str) -> String {
        let shelf = locked(&self.shelf);
        let object = shelf.objects.get(&format!("/bucket/{name}"));
        let content = object.expect("the object").content.clone();
        String::from_utf8(content).expect("text")
    }

    /// The number of writes whose condition was no longer met.
    pub fn refused(&self) -> u64 {
        locked(&self.shelf).refused
    }
}

fn locked(shelf: &Mutex<Shelf>) -> MutexGuard<'_, Shelf> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(
    State(shelf): State<Arc<Mutex<Shelf>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut shelf = locked(&shelf);
    let name = uri.path().to_owned();
    match method {
        Method::GET => match shelf.objects.get(&name) {
            Some(object) => shown(object),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        Method::PUT => put(&mut shelf, name, &headers, &body),
        Method::DELETE => {
            shelf.objects.remove(&name);
            StatusCode::NO_CONTENT.into_response()
        }
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn shown(object: &Object) -> Response {
    let mut response = object.content.clone().into_response();
    let headers = response.headers_mut();
    headers.insert(header::ETAG, object.etag().parse().expect("plain text"));
    if let Some(metadata) = &object.metadata {
        headers.insert(METADATA, metadata.parse().expect("it came as a header"));
    }
    response
}

fn put(shelf: &mut Shelf, name: String, headers: &HeaderMap, body: &[u8]) -> Response {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let there = shelf.objects.get(&name).map(Object::etag);
    if shelf.conditions == Conditions::Kept {
        let refused = match (text("if-match"), text("if-none-match").as_deref(), &there) {
            (Some(_), _, None) => Some(StatusCode::NOT_FOUND),
            (Some(wanted), _, Some(etag)) if wanted != *etag => {
                Some(StatusCode::PRECONDITION_FAILED)
            }
            (_, Some("*"), Some(_)) => Some(StatusCode::PRECONDITION_FAILED),
            (_, Some(other), _) if other != "*" => Some(StatusCode::NOT_IMPLEMENTED),
            _ => None,
        };
        if let Some(status) = refused {
            shelf.refused += 1;
            return status.into_response();
        }
    }
    let object = Object {
        content: body.to_vec(),
        metadata: text(METADATA),
    };
    let etag = object.etag();
    shelf.objects.insert(name, object);
    [(header::ETAG, etag)].into_response()
}

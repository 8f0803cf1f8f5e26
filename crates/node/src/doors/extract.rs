//! Extractors for path and query parameters with our own error format.
//!
//! axum's extractors answer with plain text; here every refusal is an `ErrorBody` that names the
//! parameter.

use super::Refused;
use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;
use synapse_core::Refusal;

/// The query parameters.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        read.map(|axum::extract::Query(value)| Self(value)).map_err(|e| bad_query(&e.body_text()).into())
    }
}

/// Splits axum's text, such as
/// `Failed to deserialize query string: max: invalid digit found in string`.
fn bad_query(text: &str) -> Refusal {
    let why = text.split_once("query string: ").map_or(text, |(_, why)| why);
    match why.split_once(": ") {
        Some((field, why)) => Refusal::bad_field(field, why),
        None => Refusal::bad_field("query", why),
    }
}

/// The path parameter.
pub(super) struct Path(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Path {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let read = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(value)| Self(value))
            .map_err(|e| Refusal::bad_field("path", e.body_text()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_query_parameter_is_named() {
        let why = "Failed to deserialize query string: max: invalid digit found in string";
        assert_eq!(bad_query(why), Refusal::bad_field("max", "invalid digit found in string"));
        assert_eq!(bad_query("duplicate field"), Refusal::bad_field("query", "duplicate field"));
    }
}

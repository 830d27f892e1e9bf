//! Content negotiation: selects one of the media types of a route by the client's preference (RFC
//! 9110, 12.5.1).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use seqd_api::{ErrorCode, Media, Problem};

/// The specificity with which a media range matches a form; `None` if it does not match.
fn precision(form: Media, kind: &str, sub: &str) -> Option<u8> {
    let (own_kind, own_sub) = form.name().split_once('/')?;
    match (kind, sub) {
        ("*", "*") => Some(1),
        (kind, "*") if kind == own_kind => Some(2),
        (kind, sub) if kind == own_kind && sub == own_sub => Some(3),
        _ => None,
    }
}

/// Selects the form of the response: the client's preferred form or, without a preference, the
/// route's first one.
pub(crate) fn choose(headers: &HeaderMap, forms: &[Media]) -> Result<Media, Problem> {
    let Some(first) = forms.first().copied() else {
        return Ok(Media::Json);
    };
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return Ok(first);
    }
    let given: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    let mut best: Option<(u16, Media)> = None;
    for form in forms {
        let quality = quality_of(*form, &given);
        // The route's order decides between equal qualities.
        if quality > 0 && best.is_none_or(|(other, _)| quality > other) {
            best = Some((quality, *form));
        }
    }
    best.map(|(_, form)| form).ok_or_else(|| {
        let names: Vec<&str> = forms.iter().map(|form| form.name()).collect();
        let detail = format!("the answer is sent as {}", names.join(" or "));
        Problem::new(ErrorCode::NotAcceptable, detail)
            .with_hint(format!("curl -H 'accept: {}'", first.name()))
    })
}

/// The quality of a form in thousandths. The most specific range that matches it decides.
fn quality_of(form: Media, given: &[&str]) -> u16 {
    let mut found: Option<(u8, u16)> = None;
    for range in given.iter().flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let Some((kind, sub)) = name.split_once('/') else {
            continue;
        };
        let Some(precision) = precision(form, kind, sub) else {
            continue;
        };
        let quality = parts
            .find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")))
            .map_or(1000, thousandths);
        if found.is_none_or(|(other, _)| precision > other) {
            found = Some((precision, quality));
        }
    }
    found.map_or(0, |(_, quality)| quality)
}

fn thousandths(text: &str) -> u16 {
    let number: f32 = text.trim().parse().unwrap_or(0.0);
    (number.clamp(0.0, 1.0) * 1000.0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &[Media] = &[Media::Text, Media::Json];

    fn choice(accept: &str, forms: &[Media]) -> Option<Media> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        choose(&headers, forms).ok()
    }

    #[test]
    fn without_a_wish_the_first_form_is_sent() {
        assert_eq!(choose(&HeaderMap::new(), ID).unwrap(), Media::Text);
        assert_eq!(choice("*/*", ID), Some(Media::Text));
        assert_eq!(
            choice("*/*", &[Media::Json, Media::Text]),
            Some(Media::Json)
        );
    }

    #[test]
    fn the_client_decides_between_the_forms() {
        assert_eq!(choice("application/json", ID), Some(Media::Json));
        assert_eq!(
            choice("application/json, text/plain, */*", ID),
            Some(Media::Text)
        );
        assert_eq!(
            choice("text/plain;q=0.5, application/json", ID),
            Some(Media::Json)
        );
        assert_eq!(choice("text/plain;q=0, */*", ID), Some(Media::Json));
        assert_eq!(choice("Application/*", ID), Some(Media::Json));
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        assert_eq!(choice(browser, ID), Some(Media::Text));
    }

    #[test]
    fn an_accept_header_without_a_supported_form_is_refused() {
        assert_eq!(choice("image/png", ID), None);
        assert_eq!(choice("text/plain", &[Media::Json]), None);
        assert_eq!(choice("application/json;q=0", &[Media::Json]), None);
        assert_eq!(choice("nonsense", ID), None);
    }
}

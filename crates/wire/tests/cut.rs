//! Bytes arrive in pieces: no cut may change what is understood.

use std::fs;
use std::path::Path;
use wire::backend::{
    CommandComplete, DataRow, ErrorFields, NegotiateProtocolVersion, NotificationResponse,
    ParameterDescription, ParameterStatus, ReadyForQuery, RowDescription,
};
use wire::frontend::{
    Close, CopyFail, Describe, Execute, Parse, Password, Query, SaslInitialResponse,
};
use wire::startup::StartupPacket;
use wire::{Header, backend, frontend};

fn seed(name: &str) -> Vec<u8> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    fs::read(corpus.join(name)).expect("the corpus is part of the tree")
}

/// Takes the whole messages off the front of `received`.
fn take_messages(received: &mut Vec<u8>, messages: &mut Vec<Vec<u8>>) {
    while let Some(header) = Header::peek(received).expect("a valid stream") {
        if received.len() < header.total() {
            return;
        }
        messages.push(received.drain(..header.total()).collect());
    }
}

/// The messages of a stream that arrives in two pieces.
fn messages_of(first: &[u8], second: &[u8]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut received = first.to_vec();
    take_messages(&mut received, &mut messages);
    received.extend_from_slice(second);
    take_messages(&mut received, &mut messages);
    assert!(received.is_empty(), "the stream ends with a whole message");
    messages
}

#[test]
fn a_stream_means_the_same_whatever_its_cut() {
    for name in [
        "frontend/psql_session",
        "backend/psql_session",
        "backend/extended_all",
    ] {
        let stream = seed(name);
        let whole = messages_of(&stream, b"");
        assert!(whole.len() > 10, "{name} is a session");
        for cut in 0..stream.len() {
            let (first, second) = stream.split_at(cut);
            assert_eq!(messages_of(first, second), whole, "{name} cut at {cut}");
        }
    }
}

/// The views whose format says where it ends; the others (Bind, FunctionCall, SASL data, keys) take
/// what the header gives them.
fn is_understood(frontend: bool, tag: u8, body: &[u8]) -> Option<bool> {
    Some(match (frontend, tag) {
        (true, frontend::tag::QUERY) => Query::parse(body).is_ok(),
        (true, frontend::tag::PARSE) => Parse::parse(body).is_ok(),
        (true, frontend::tag::DESCRIBE) => Describe::parse(body).is_ok(),
        (true, frontend::tag::CLOSE) => Close::parse(body).is_ok(),
        (true, frontend::tag::EXECUTE) => Execute::parse(body).is_ok(),
        (true, frontend::tag::COPY_FAIL) => CopyFail::parse(body).is_ok(),
        (false, backend::tag::PARAMETER_STATUS) => ParameterStatus::parse(body).is_ok(),
        (false, backend::tag::READY_FOR_QUERY) => ReadyForQuery::parse(body).is_ok(),
        (false, backend::tag::COMMAND_COMPLETE) => CommandComplete::parse(body).is_ok(),
        (false, backend::tag::ERROR_RESPONSE | backend::tag::NOTICE_RESPONSE) => {
            ErrorFields::parse(body).is_ok()
        }
        (false, backend::tag::ROW_DESCRIPTION) => RowDescription::parse(body).is_ok(),
        (false, backend::tag::DATA_ROW) => DataRow::parse(body).is_ok(),
        (false, backend::tag::PARAMETER_DESCRIPTION) => ParameterDescription::parse(body).is_ok(),
        (false, backend::tag::NOTIFICATION_RESPONSE) => NotificationResponse::parse(body).is_ok(),
        (false, backend::tag::NEGOTIATE_PROTOCOL_VERSION) => {
            NegotiateProtocolVersion::parse(body).is_ok()
        }
        _ => return None,
    })
}

#[test]
fn half_a_message_is_no_message() {
    let mut seen = 0;
    for (frontend, name) in [
        (true, "frontend/psql_session"),
        (true, "frontend/extended_all"),
        (true, "frontend/copy_fail"),
        (false, "backend/psql_session"),
        (false, "backend/extended_all"),
        (false, "backend/negotiate"),
    ] {
        for message in messages_of(&seed(name), b"") {
            let (head, body) = message.split_at(Header::SIZE);
            let understood = |body| is_understood(frontend, head[0], body);
            let Some(whole) = understood(body) else {
                continue;
            };
            assert!(whole, "{name}: {}", message.escape_ascii());
            seen += 1;
            for cut in 0..body.len() {
                assert_eq!(understood(&body[..cut]), Some(false), "{name} cut at {cut}");
            }
        }
    }
    assert!(seen > 50, "only {seen} messages were looked at");
}

#[test]
fn half_a_password_is_no_password() {
    let messages = messages_of(&seed("frontend/sasl"), b"");
    for message in &messages {
        let body = &message[Header::SIZE..];
        assert!(SaslInitialResponse::parse(body).is_ok());
        for cut in 0..body.len() {
            assert!(SaslInitialResponse::parse(&body[..cut]).is_err());
        }
    }
    for cut in 0..b"secret".len() {
        assert!(Password::parse(&b"secret\0"[..cut]).is_err());
    }
}

#[test]
fn half_a_startup_packet_is_no_packet() {
    for name in [
        "ssl_request",
        "cancel_request",
        "cancel_long_key",
        "message_3_2",
    ] {
        let packet = seed(&format!("startup/{name}"));
        assert!(StartupPacket::parse(&packet).is_ok(), "{name}");
        for cut in 0..packet.len() {
            assert!(
                StartupPacket::parse(&packet[..cut]).is_err(),
                "{name} cut at {cut}"
            );
        }
    }
}

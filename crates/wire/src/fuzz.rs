//! What the fuzz targets (`fuzz/`) and their short run (`tests/fuzz_short.rs`) call: properties that
//! hold for every input. They panic where one does not; nothing else calls them.

use crate::backend::{
    Authentication, BackendKeyData, CommandComplete, DataRow, ErrorFields,
    NegotiateProtocolVersion, NotificationResponse, ParameterDescription, ParameterStatus,
    ReadyForQuery, RowDescription,
};
use crate::frontend::{
    Bind, Close, CopyFail, Describe, Execute, FunctionCall, Parse, Password, Query,
    SaslInitialResponse,
};
use crate::startup::StartupPacket;
use crate::{Header, WireError, backend, frontend, parse_options, write};
use crate::{quote_identifier, quote_literal};

/// A message that was understood and written again.
type Rewritten = Result<Vec<u8>, WireError>;

/// A client's bytes after its log-in.
pub fn frontend(data: &[u8]) {
    each_message(data, |message, body| {
        for rewrite in FRONTEND {
            same_but_for_the_tag(message, rewrite(body));
        }
        bind_names_do_not_depend_on_the_cut(body);
        let _ = FunctionCall::parse(body);
        let _ = frontend::no_body(body);
    });
}

/// A server's bytes.
pub fn backend(data: &[u8]) {
    each_message(data, |message, body| {
        for rewrite in BACKEND {
            same_but_for_the_tag(message, rewrite(body));
        }
        negotiated_version_survives(body);
        error_fields_are_the_body(body);
    });
}

/// A client's first bytes, and the texts that they may carry.
pub fn startup(data: &[u8]) {
    let packet = match StartupPacket::peek_len(data) {
        Ok(Some(len)) => data.get(..len).unwrap_or(data),
        _ => data,
    };
    if let Ok(parsed) = StartupPacket::parse(packet) {
        assert_eq!(packet, rewrite_startup(&parsed));
        cut_startup_is_incomplete(packet);
    }
    options_survive(data);
    quoted_texts_end_where_they_should(data);
}

/// Calls `check` with each whole message and its body, and with what is left as if it were one.
fn each_message(data: &[u8], check: impl Fn(&[u8], &[u8])) {
    let mut rest = data;
    while let Ok(Some(header)) = Header::peek(rest) {
        let Some((message, after)) = rest.split_at_checked(header.total()) else {
            break;
        };
        let (head, body) = message.split_at(Header::SIZE);
        assert_eq!(header.body(), body.len());
        for cut in 0..Header::SIZE {
            assert_eq!(Header::peek(&head[..cut]), Ok(None));
        }
        check(message, body);
        rest = after;
    }
    check(&framed(rest), rest);
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    write::copy_data(&mut message, body);
    message
}

const FRONTEND: [fn(&[u8]) -> Rewritten; 9] = [
    |body| Query::parse(body).map(|it| written(|out| write::query(out, it.text))),
    |body| {
        Parse::parse(body)
            .map(|it| written(|out| write::parse(out, it.name, it.text, it.param_types)))
    },
    |body| {
        Bind::parse(body)
            .map(|it| written(|out| write::bind(out, it.portal, it.statement, it.rest)))
    },
    |body| Describe::parse(body).map(|it| written(|out| write::describe(out, it.target, it.name))),
    |body| Close::parse(body).map(|it| written(|out| write::close(out, it.target, it.name))),
    |body| {
        Execute::parse(body).map(|it| written(|out| write::execute(out, it.portal, it.max_rows)))
    },
    |body| CopyFail::parse(body).map(|it| written(|out| write::copy_fail(out, it.message))),
    |body| Password::parse(body).map(|it| written(|out| write::password(out, it.password))),
    |body| {
        SaslInitialResponse::parse(body)
            .map(|it| written(|out| write::sasl_initial_response(out, it.mechanism, it.data)))
    },
];

const BACKEND: [fn(&[u8]) -> Rewritten; 9] = [
    rewrite_authentication,
    |body| {
        BackendKeyData::parse(body)
            .map(|it| written(|out| write::backend_key_data(out, it.pid, it.key)))
    },
    |body| {
        ParameterStatus::parse(body)
            .map(|it| written(|out| write::parameter_status(out, it.name, it.value)))
    },
    |body| {
        ReadyForQuery::parse(body).map(|it| written(|out| write::ready_for_query(out, it.status)))
    },
    |body| {
        CommandComplete::parse(body).map(|it| written(|out| write::command_complete(out, it.tag)))
    },
    |body| {
        NotificationResponse::parse(body).map(|it| {
            written(|out| write::notification_response(out, it.pid, it.channel, it.payload))
        })
    },
    |body| {
        RowDescription::parse(body).map(|it| {
            let columns: Vec<_> = it.columns().collect();
            written(|out| write::row_description(out, &columns))
        })
    },
    |body| DataRow::parse(body).map(|it| written(|out| write::data_row(out, it.values()))),
    |body| {
        ParameterDescription::parse(body).map(|it| {
            let types: Vec<_> = it.types().collect();
            written(|out| write::parameter_description(out, &types))
        })
    },
];

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Every view is tried on every body, so the tag alone may differ.
fn same_but_for_the_tag(message: &[u8], rewritten: Rewritten) {
    if let Ok(again) = rewritten {
        assert_eq!(message[1..], again[1..], "written as {}", again[0] as char);
    }
}

fn rewrite_authentication(body: &[u8]) -> Rewritten {
    let authentication = Authentication::parse(body)?;
    Ok(written(|out| match authentication {
        Authentication::Ok => write::authentication_ok(out),
        Authentication::CleartextPassword => write::authentication_cleartext(out),
        Authentication::Md5Password { salt } => write::authentication_md5(out, salt),
        Authentication::Sasl { mechanisms } => {
            write::authentication_sasl(out, &mechanisms.collect::<Vec<_>>());
        }
        Authentication::SaslContinue(data) => write::authentication_sasl_continue(out, data),
        Authentication::SaslFinal(data) => write::authentication_sasl_final(out, data),
        Authentication::Other(code) => {
            assert!(body.starts_with(&code.to_be_bytes()));
            out.extend_from_slice(&framed(body));
        }
    }))
}

fn bind_names_do_not_depend_on_the_cut(body: &[u8]) {
    let whole = Bind::prefix(body);
    for cut in 0..body.len().min(64) {
        let early = Bind::prefix(&body[..cut]);
        assert!(early == Ok(None) || early == whole);
    }
    if let Ok(Some((portal, statement, len))) = whole {
        assert_eq!(body[..len], [portal, b"\0", statement, b"\0"].concat());
    }
}

fn negotiated_version_survives(body: &[u8]) {
    let Ok(negotiate) = NegotiateProtocolVersion::parse(body) else {
        return;
    };
    let options: Vec<_> = negotiate.options.clone().collect();
    let newest = negotiate.newest();
    let message = written(|out| write::negotiate_protocol_version(out, newest, &options));
    let again = NegotiateProtocolVersion::parse(&message[Header::SIZE..]);
    let again = again.expect("what was written is valid");
    assert_eq!((again.newest(), again.options), (newest, negotiate.options));
    assert_eq!(body[4..], message[Header::SIZE + 4..]);
}

fn error_fields_are_the_body(body: &[u8]) {
    let Ok(fields) = ErrorFields::parse(body) else {
        return;
    };
    let mut again = Vec::new();
    for (code, text) in fields.iter() {
        assert!(fields.get(code).is_some());
        again.push(code);
        again.extend_from_slice(text);
        again.push(0);
    }
    again.push(0);
    assert_eq!(body, again);
    if let Some(sqlstate) = fields.sqlstate() {
        assert_eq!(
            Some(sqlstate.as_bytes()),
            fields.get(backend::field::SQLSTATE)
        );
    }
}

fn rewrite_startup(packet: &StartupPacket<'_>) -> Vec<u8> {
    written(|out| match packet {
        StartupPacket::Ssl => write::ssl_request(out),
        StartupPacket::GssEnc => write::gssenc_request(out),
        StartupPacket::Cancel { pid, key } => write::cancel_request(out, *pid, key),
        StartupPacket::Startup(startup) => {
            write::startup(out, startup.version, startup.parameters());
        }
    })
}

fn cut_startup_is_incomplete(packet: &[u8]) {
    for cut in 0..packet.len().min(64) {
        let early = StartupPacket::peek_len(&packet[..cut]);
        assert!(matches!(early, Ok(None)) || early == Ok(Some(packet.len())));
        assert_eq!(
            StartupPacket::parse(&packet[..cut]),
            Err(WireError::Truncated)
        );
    }
}

fn options_survive(data: &[u8]) {
    let Ok(settings) = parse_options(data) else {
        return;
    };
    let mut again = Vec::new();
    for (name, value) in &settings {
        assert!(!name.is_empty() && !name.contains(&b'-'));
        again.extend_from_slice(b" -c ");
        for byte in [name.as_slice(), b"=", value.as_slice()].concat() {
            again.extend_from_slice(&[b'\\', byte]);
        }
    }
    assert_eq!(parse_options(&again), Ok(settings));
}

fn quoted_texts_end_where_they_should(data: &[u8]) {
    let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
    let literal = written(|out| quote_literal(out, data));
    let doubled: &[u8] = match literal.strip_prefix(b"E") {
        Some(_) => b"'\\",
        None => b"'",
    };
    let quoted = literal.strip_prefix(b"E").unwrap_or(&literal);
    assert_eq!(unquote(quoted, b'\'', doubled).as_deref(), Some(text));
    let identifier = written(|out| quote_identifier(out, data));
    assert_eq!(unquote(&identifier, b'"', b"\"").as_deref(), Some(text));
}

/// What a server reads: `None` when the text ends early, or late.
fn unquote(quoted: &[u8], mark: u8, doubled: &[u8]) -> Option<Vec<u8>> {
    let inside = quoted.strip_prefix(&[mark])?.strip_suffix(&[mark])?;
    let mut bytes = inside.iter();
    let mut text = Vec::new();
    while let Some(&byte) = bytes.next() {
        if doubled.contains(&byte) && bytes.next() != Some(&byte) {
            return None;
        }
        text.push(byte);
    }
    Some(text)
}

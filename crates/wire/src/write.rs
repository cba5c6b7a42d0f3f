//! Messages of both directions, appended to a buffer.
//!
//! Nothing here fails. A text with a NUL, a list that is too long or a message beyond 2^31 - 1 bytes
//! is the caller's fault: debug builds stop, release builds cut the text or the list, or leave the
//! message out, so that what follows is still understood.

use crate::backend::{self, Column, TransactionStatus};
use crate::frontend::{self, Target};
use crate::quote::until_nul;
use crate::report::Report;
use crate::startup::{self, ProtocolVersion};

// ---- from a client ----------------------------------------------------------------------------

pub fn query(out: &mut Vec<u8>, text: &[u8]) {
    message(out, frontend::tag::QUERY, |out| put_string(out, text));
}

/// `param_types_raw` as in [`frontend::Parse::param_types`].
pub fn parse(out: &mut Vec<u8>, name: &[u8], text: &[u8], param_types_raw: &[u8]) {
    message(out, frontend::tag::PARSE, |out| {
        put_string(out, name);
        put_string(out, text);
        out.extend_from_slice(param_types_raw);
    });
}

/// `rest` as in [`frontend::Bind::rest`].
pub fn bind(out: &mut Vec<u8>, portal: &[u8], statement: &[u8], rest: &[u8]) {
    message(out, frontend::tag::BIND, |out| {
        put_string(out, portal);
        put_string(out, statement);
        out.extend_from_slice(rest);
    });
}

pub fn describe(out: &mut Vec<u8>, target: Target, name: &[u8]) {
    message(out, frontend::tag::DESCRIBE, |out| {
        out.push(target.as_u8());
        put_string(out, name);
    });
}

pub fn close(out: &mut Vec<u8>, target: Target, name: &[u8]) {
    message(out, frontend::tag::CLOSE, |out| {
        out.push(target.as_u8());
        put_string(out, name);
    });
}

/// `max_rows` 0 stands for no limit.
pub fn execute(out: &mut Vec<u8>, portal: &[u8], max_rows: i32) {
    message(out, frontend::tag::EXECUTE, |out| {
        put_string(out, portal);
        put_i32(out, max_rows);
    });
}

pub fn sync(out: &mut Vec<u8>) {
    message(out, frontend::tag::SYNC, |_| ());
}

pub fn flush(out: &mut Vec<u8>) {
    message(out, frontend::tag::FLUSH, |_| ());
}

pub fn terminate(out: &mut Vec<u8>) {
    message(out, frontend::tag::TERMINATE, |_| ());
}

/// The tag is the same in both directions.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    message(out, frontend::tag::COPY_DATA, |out| {
        out.extend_from_slice(data);
    });
}

/// The tag is the same in both directions.
pub fn copy_done(out: &mut Vec<u8>) {
    message(out, frontend::tag::COPY_DONE, |_| ());
}

pub fn copy_fail(out: &mut Vec<u8>, reason: &[u8]) {
    message(out, frontend::tag::COPY_FAIL, |out| put_string(out, reason));
}

pub fn password(out: &mut Vec<u8>, password: &[u8]) {
    message(out, frontend::tag::PASSWORD, |out| {
        put_string(out, password)
    });
}

pub fn sasl_initial_response(out: &mut Vec<u8>, mechanism: &[u8], data: Option<&[u8]>) {
    message(out, frontend::tag::PASSWORD, |out| {
        put_string(out, mechanism);
        put_value(out, data);
    });
}

pub fn sasl_response(out: &mut Vec<u8>, data: &[u8]) {
    message(out, frontend::tag::PASSWORD, |out| {
        out.extend_from_slice(data);
    });
}

/// A parameter without a name would end the list: it is the caller's fault and left out.
pub fn startup<'a>(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    parameters: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) {
    packet(out, version.as_u32(), |out| {
        for (name, value) in parameters {
            debug_assert!(!name.is_empty(), "a startup parameter without a name");
            if !until_nul(name).is_empty() {
                put_string(out, name);
                put_string(out, value);
            }
        }
        out.push(0);
    });
}

pub fn ssl_request(out: &mut Vec<u8>) {
    packet(out, startup::SSL_REQUEST, |_| ());
}

pub fn gssenc_request(out: &mut Vec<u8>) {
    packet(out, startup::GSSENC_REQUEST, |_| ());
}

pub fn cancel_request(out: &mut Vec<u8>, pid: i32, key: &[u8]) {
    packet(out, startup::CANCEL_REQUEST, |out| {
        put_i32(out, pid);
        out.extend_from_slice(key);
    });
}

// ---- from a server ----------------------------------------------------------------------------

pub fn authentication_ok(out: &mut Vec<u8>) {
    authentication(out, backend::authentication::OK, |_| ());
}

pub fn authentication_cleartext(out: &mut Vec<u8>) {
    authentication(out, backend::authentication::CLEARTEXT_PASSWORD, |_| ());
}

pub fn authentication_md5(out: &mut Vec<u8>, salt: [u8; 4]) {
    authentication(out, backend::authentication::MD5_PASSWORD, |out| {
        out.extend_from_slice(&salt);
    });
}

/// A mechanism without a name would end the list: it is left out.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&[u8]]) {
    authentication(out, backend::authentication::SASL, |out| {
        for mechanism in mechanisms.iter().filter(|name| !until_nul(name).is_empty()) {
            put_string(out, mechanism);
        }
        out.push(0);
    });
}

pub fn authentication_sasl_continue(out: &mut Vec<u8>, data: &[u8]) {
    authentication(out, backend::authentication::SASL_CONTINUE, |out| {
        out.extend_from_slice(data);
    });
}

pub fn authentication_sasl_final(out: &mut Vec<u8>, data: &[u8]) {
    authentication(out, backend::authentication::SASL_FINAL, |out| {
        out.extend_from_slice(data);
    });
}

pub fn parameter_status(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    message(out, backend::tag::PARAMETER_STATUS, |out| {
        put_string(out, name);
        put_string(out, value);
    });
}

pub fn backend_key_data(out: &mut Vec<u8>, pid: i32, key: &[u8]) {
    message(out, backend::tag::BACKEND_KEY_DATA, |out| {
        put_i32(out, pid);
        out.extend_from_slice(key);
    });
}

pub fn ready_for_query(out: &mut Vec<u8>, status: TransactionStatus) {
    message(out, backend::tag::READY_FOR_QUERY, |out| {
        out.push(status.as_u8());
    });
}

pub fn command_complete(out: &mut Vec<u8>, tag: &[u8]) {
    message(out, backend::tag::COMMAND_COMPLETE, |out| {
        put_string(out, tag);
    });
}

pub fn parse_complete(out: &mut Vec<u8>) {
    message(out, backend::tag::PARSE_COMPLETE, |_| ());
}

pub fn bind_complete(out: &mut Vec<u8>) {
    message(out, backend::tag::BIND_COMPLETE, |_| ());
}

pub fn close_complete(out: &mut Vec<u8>) {
    message(out, backend::tag::CLOSE_COMPLETE, |_| ());
}

pub fn no_data(out: &mut Vec<u8>) {
    message(out, backend::tag::NO_DATA, |_| ());
}

pub fn empty_query_response(out: &mut Vec<u8>) {
    message(out, backend::tag::EMPTY_QUERY_RESPONSE, |_| ());
}

pub fn portal_suspended(out: &mut Vec<u8>) {
    message(out, backend::tag::PORTAL_SUSPENDED, |_| ());
}

/// Type OIDs of the parameters.
pub fn parameter_description(out: &mut Vec<u8>, types: &[u32]) {
    message(out, backend::tag::PARAMETER_DESCRIPTION, |out| {
        put_list(out, types, |out, oid| {
            out.extend_from_slice(&oid.to_be_bytes());
        });
    });
}

pub fn row_description(out: &mut Vec<u8>, columns: &[Column<'_>]) {
    message(out, backend::tag::ROW_DESCRIPTION, |out| {
        put_list(out, columns, |out, column| {
            put_string(out, column.name);
            out.extend_from_slice(&column.table_oid.to_be_bytes());
            out.extend_from_slice(&column.attribute.to_be_bytes());
            out.extend_from_slice(&column.type_oid.to_be_bytes());
            out.extend_from_slice(&column.type_len.to_be_bytes());
            put_i32(out, column.type_modifier);
            out.extend_from_slice(&column.format.as_i16().to_be_bytes());
        });
    });
}

/// `None` stands for SQL's null.
pub fn data_row<'a>(out: &mut Vec<u8>, values: impl IntoIterator<Item = Option<&'a [u8]>>) {
    message(out, backend::tag::DATA_ROW, |out| {
        put_list(out, values, put_value);
    });
}

/// Sends the whole version, as PostgreSQL does and libpq expects, where the manual speaks of the
/// minor number.
pub fn negotiate_protocol_version(
    out: &mut Vec<u8>,
    newest: ProtocolVersion,
    unsupported_options: &[&[u8]],
) {
    message(out, backend::tag::NEGOTIATE_PROTOCOL_VERSION, |out| {
        out.extend_from_slice(&newest.as_u32().to_be_bytes());
        put_i32(
            out,
            i32::try_from(unsupported_options.len()).unwrap_or(i32::MAX),
        );
        for option in unsupported_options {
            put_string(out, option);
        }
    });
}

pub fn notification_response(out: &mut Vec<u8>, pid: i32, channel: &[u8], payload: &[u8]) {
    message(out, backend::tag::NOTIFICATION_RESPONSE, |out| {
        put_i32(out, pid);
        put_string(out, channel);
        put_string(out, payload);
    });
}

pub fn error_response(out: &mut Vec<u8>, report: &Report<'_>) {
    message(out, backend::tag::ERROR_RESPONSE, |out| {
        put_report(out, report);
    });
}

pub fn notice_response(out: &mut Vec<u8>, report: &Report<'_>) {
    message(out, backend::tag::NOTICE_RESPONSE, |out| {
        put_report(out, report);
    });
}

// ---- framing and data types -------------------------------------------------------------------

#[inline]
fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    if !framed(out, body) {
        out.pop();
    }
}

/// A startup packet: no tag, but a version or a request code.
fn packet(out: &mut Vec<u8>, code: u32, body: impl FnOnce(&mut Vec<u8>)) {
    framed(out, |out| {
        out.extend_from_slice(&code.to_be_bytes());
        body(out);
    });
}

fn authentication(out: &mut Vec<u8>, code: i32, body: impl FnOnce(&mut Vec<u8>)) {
    message(out, backend::tag::AUTHENTICATION, |out| {
        put_i32(out, code);
        body(out);
    });
}

/// Writes a length word and the body behind it; leaves both out when the word cannot say the length.
#[inline]
fn framed(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let len = i32::try_from(out.len() - start);
    debug_assert!(len.is_ok(), "a message of more than 2^31 - 1 bytes");
    match (len, out.get_mut(start..start + 4)) {
        (Ok(len), Some(word)) => {
            word.copy_from_slice(&len.to_be_bytes());
            true
        }
        _ => {
            out.truncate(start);
            false
        }
    }
}

#[inline]
fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    let cut = until_nul(text);
    debug_assert_eq!(cut.len(), text.len(), "a string with a NUL inside");
    out.extend_from_slice(cut);
    out.push(0);
}

#[inline]
fn put_i32(out: &mut Vec<u8>, number: i32) {
    out.extend_from_slice(&number.to_be_bytes());
}

fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    let Some(value) = value else {
        return put_i32(out, -1);
    };
    // A value whose length does not fit makes the message too long, which then is left out whole.
    put_i32(out, i32::try_from(value.len()).unwrap_or(i32::MAX));
    out.extend_from_slice(value);
}

/// Int16 count, then the items; the count is read as unsigned by everyone.
fn put_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    put: impl Fn(&mut Vec<u8>, T),
) {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    let mut items = items.into_iter();
    let mut count: u16 = 0;
    for item in items.by_ref().take(usize::from(u16::MAX)) {
        put(out, item);
        count += 1;
    }
    debug_assert!(items.next().is_none(), "a list of more than 65,535 items");
    if let Some(place) = out.get_mut(start..start + 2) {
        place.copy_from_slice(&count.to_be_bytes());
    }
}

fn put_report(out: &mut Vec<u8>, report: &Report<'_>) {
    let severity = report.severity.as_str();
    let fields = [
        (backend::field::SEVERITY, Some(severity)),
        (backend::field::SEVERITY_PLAIN, Some(severity)),
        (backend::field::SQLSTATE, Some(report.sqlstate.as_str())),
        (backend::field::MESSAGE, Some(report.message)),
        (backend::field::DETAIL, report.detail),
        (backend::field::HINT, report.hint),
    ];
    for (code, text) in fields {
        if let Some(text) = text {
            out.push(code);
            put_string(out, text.as_bytes());
        }
    }
    out.push(0);
}

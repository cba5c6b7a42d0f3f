//! Bytes of every message, by hand from the manual ("Message Formats"): what the writers make and
//! what the views read.

use wire::backend::{
    self, Authentication, BackendKeyData, Column, CommandComplete, DataRow, ErrorFields, Format,
    NegotiateProtocolVersion, NotificationResponse, ParameterDescription, ParameterStatus,
    ReadyForQuery, RowDescription, TransactionStatus,
};
use wire::frontend::{
    self, Bind, Close, CopyFail, Describe, Execute, FunctionCall, Parse, Password, Query,
    SaslInitialResponse, Target,
};
use wire::startup::{PROTOCOL_3_0, PROTOCOL_3_2, ProtocolVersion, StartupPacket};
use wire::{Header, Report, Severity, SqlState, write};

/// Asserts that `write` makes exactly `golden`, a message with this tag, and returns its body.
fn body(golden: &[u8], tag: u8, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
    assert_eq!(
        written(write).escape_ascii().to_string(),
        golden.escape_ascii().to_string()
    );
    let header = Header::peek(golden).expect("valid").expect("whole");
    assert_eq!((header.tag, header.total()), (tag, golden.len()));
    &golden[Header::SIZE..]
}

/// What `write` appends; what was in the buffer before stays.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = b"before".to_vec();
    write(&mut out);
    out.strip_prefix(b"before").expect("only appended").to_vec()
}

#[test]
fn query() {
    let golden = b"Q\0\0\0\x0dSELECT 1\0";
    let body = body(golden, frontend::tag::QUERY, |out| {
        write::query(out, b"SELECT 1")
    });
    assert_eq!(Query::parse(body), Ok(Query { text: b"SELECT 1" }));
}

#[test]
fn empty_query() {
    let body = body(b"Q\0\0\0\x05\0", frontend::tag::QUERY, |out| {
        write::query(out, b"")
    });
    assert_eq!(Query::parse(body), Ok(Query { text: b"" }));
}

#[test]
fn parse() {
    let golden = b"P\0\0\0\x1bs1\0SELECT $1\0\0\x02\0\0\0\x17\0\0\0\x19";
    let expected = Parse {
        name: b"s1",
        text: b"SELECT $1",
        param_types: b"\0\x02\0\0\0\x17\0\0\0\x19",
    };
    let body = body(golden, frontend::tag::PARSE, |out| {
        write::parse(out, expected.name, expected.text, expected.param_types);
    });
    assert_eq!(Parse::parse(body), Ok(expected));
}

#[test]
fn bind() {
    let golden = b"B\0\0\0\x19p\0s1\0\0\x01\0\x01\0\x01\0\0\0\x04\0\0\0\x2a\0\0";
    let expected = Bind {
        portal: b"p",
        statement: b"s1",
        rest: b"\0\x01\0\x01\0\x01\0\0\0\x04\0\0\0\x2a\0\0",
    };
    let body = body(golden, frontend::tag::BIND, |out| {
        write::bind(out, expected.portal, expected.statement, expected.rest);
    });
    assert_eq!(Bind::parse(body), Ok(expected));
    assert_eq!(Bind::prefix(&body[..4]), Ok(None));
    assert_eq!(
        Bind::prefix(&body[..5]),
        Ok(Some((&b"p"[..], &b"s1"[..], 5)))
    );
}

#[test]
fn bind_unnamed() {
    let golden = b"B\0\0\0\x0c\0\0\0\0\0\0\0\0";
    let body = body(golden, frontend::tag::BIND, |out| {
        write::bind(out, b"", b"", &[0; 6])
    });
    assert_eq!(Bind::prefix(body), Ok(Some((&b""[..], &b""[..], 2))));
}

#[test]
fn describe_and_close() {
    let golden = b"D\0\0\0\x08Ss1\0";
    let described = body(golden, frontend::tag::DESCRIBE, |out| {
        write::describe(out, Target::Statement, b"s1");
    });
    let expected = Describe {
        target: Target::Statement,
        name: b"s1",
    };
    assert_eq!(Describe::parse(described), Ok(expected));

    let golden = b"C\0\0\0\x06P\0";
    let closed = body(golden, frontend::tag::CLOSE, |out| {
        write::close(out, Target::Portal, b"")
    });
    assert_eq!(
        Close::parse(closed),
        Ok(Close {
            target: Target::Portal,
            name: b""
        })
    );
}

#[test]
fn execute() {
    let golden = b"E\0\0\0\x0ap\0\0\0\x01\0";
    let body = body(golden, frontend::tag::EXECUTE, |out| {
        write::execute(out, b"p", 256)
    });
    assert_eq!(
        Execute::parse(body),
        Ok(Execute {
            portal: b"p",
            max_rows: 256
        })
    );
}

#[test]
fn messages_without_a_body() {
    type Case = (&'static [u8], u8, fn(&mut Vec<u8>));
    let cases: [Case; 10] = [
        (b"S\0\0\0\x04", frontend::tag::SYNC, write::sync),
        (b"H\0\0\0\x04", frontend::tag::FLUSH, write::flush),
        (b"X\0\0\0\x04", frontend::tag::TERMINATE, write::terminate),
        (b"c\0\0\0\x04", backend::tag::COPY_DONE, write::copy_done),
        (
            b"1\0\0\0\x04",
            backend::tag::PARSE_COMPLETE,
            write::parse_complete,
        ),
        (
            b"2\0\0\0\x04",
            backend::tag::BIND_COMPLETE,
            write::bind_complete,
        ),
        (
            b"3\0\0\0\x04",
            backend::tag::CLOSE_COMPLETE,
            write::close_complete,
        ),
        (b"n\0\0\0\x04", backend::tag::NO_DATA, write::no_data),
        (
            b"I\0\0\0\x04",
            backend::tag::EMPTY_QUERY_RESPONSE,
            write::empty_query_response,
        ),
        (
            b"s\0\0\0\x04",
            backend::tag::PORTAL_SUSPENDED,
            write::portal_suspended,
        ),
    ];
    for (golden, tag, write) in cases {
        assert_eq!(frontend::no_body(body(golden, tag, write)), Ok(()));
    }
}

#[test]
fn copy() {
    let data = body(b"d\0\0\0\x08a\tb\n", frontend::tag::COPY_DATA, |out| {
        write::copy_data(out, b"a\tb\n");
    });
    assert_eq!(data, b"a\tb\n");
    let fail = body(b"f\0\0\0\x08bad\0", frontend::tag::COPY_FAIL, |out| {
        write::copy_fail(out, b"bad");
    });
    assert_eq!(CopyFail::parse(fail), Ok(CopyFail { message: b"bad" }));
}

#[test]
fn passwords() {
    let password = body(b"p\0\0\0\x0bsecret\0", frontend::tag::PASSWORD, |out| {
        write::password(out, b"secret");
    });
    assert_eq!(
        Password::parse(password),
        Ok(Password {
            password: b"secret"
        })
    );
    assert!(!format!("{:?}", Password::parse(password)).contains("secret"));

    let golden = b"p\0\0\0\x1cSCRAM-SHA-256\0\0\0\0\x06n,,n=x";
    let first = body(golden, frontend::tag::PASSWORD, |out| {
        write::sasl_initial_response(out, b"SCRAM-SHA-256", Some(b"n,,n=x"));
    });
    let expected = SaslInitialResponse {
        mechanism: b"SCRAM-SHA-256",
        data: Some(b"n,,n=x"),
    };
    assert_eq!(SaslInitialResponse::parse(first), Ok(expected));

    let golden = b"p\0\0\0\x0aX\0\xff\xff\xff\xff";
    let none = body(golden, frontend::tag::PASSWORD, |out| {
        write::sasl_initial_response(out, b"X", None);
    });
    let expected = SaslInitialResponse {
        mechanism: b"X",
        data: None,
    };
    assert_eq!(SaslInitialResponse::parse(none), Ok(expected));

    let golden = b"p\0\0\0\x07c=b";
    body(golden, frontend::tag::PASSWORD, |out| {
        write::sasl_response(out, b"c=b")
    });
}

#[test]
fn function_call() {
    let body = b"\0\0\x06\x3e\0\0\0\0\0\0";
    let expected = FunctionCall {
        oid: 1598,
        rest: &[0; 6],
    };
    assert_eq!(FunctionCall::parse(body), Ok(expected));
}

#[test]
fn startup_message() {
    let golden = b"\0\0\0\x1c\0\x03\0\x02user\0me\0database\0d\0\0";
    let parameters: [(&[u8], &[u8]); 2] = [(b"user", b"me"), (b"database", b"d")];
    let packet = written(|out| write::startup(out, PROTOCOL_3_2, parameters));
    assert_eq!(packet, golden);
    assert_eq!(StartupPacket::peek_len(&golden[..3]), Ok(None));
    assert_eq!(
        StartupPacket::peek_len(&golden[..4]),
        Ok(Some(golden.len()))
    );
    let Ok(StartupPacket::Startup(startup)) = StartupPacket::parse(golden) else {
        panic!("not a StartupMessage");
    };
    assert_eq!(startup.version, PROTOCOL_3_2);
    assert!(startup.parameters().eq(parameters));
    assert_eq!(startup.parameter(b"database"), Some(&b"d"[..]));
    assert_eq!(startup.parameter(b"data"), None);
}

#[test]
fn startup_message_keeps_what_it_does_not_know() {
    let packet = b"\0\0\0\x1f\0\x03\x27\x0fuser\0a\0user\0\0_pq_.x\0y\0\0";
    let Ok(StartupPacket::Startup(startup)) = StartupPacket::parse(packet) else {
        panic!("not a StartupMessage");
    };
    assert_eq!(
        startup.version,
        ProtocolVersion {
            major: 3,
            minor: 9999
        }
    );
    assert_eq!(
        startup.parameter(b"user"),
        Some(&b""[..]),
        "the last one counts"
    );
    assert_eq!(startup.parameters().count(), 3);
}

#[test]
fn requests() {
    let ssl = written(write::ssl_request);
    assert_eq!(ssl, [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
    assert_eq!(StartupPacket::parse(&ssl), Ok(StartupPacket::Ssl));

    let gssenc = written(write::gssenc_request);
    assert_eq!(gssenc, [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30]);
    assert_eq!(StartupPacket::parse(&gssenc), Ok(StartupPacket::GssEnc));

    let cancel = written(|out| write::cancel_request(out, 258, b"\x01\x02\x03\x04"));
    assert_eq!(
        cancel,
        b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\x01\x02\x01\x02\x03\x04"
    );
    let expected = StartupPacket::Cancel {
        pid: 258,
        key: b"\x01\x02\x03\x04",
    };
    assert!(!format!("{expected:?}").contains("key"));
    assert_eq!(StartupPacket::parse(&cancel), Ok(expected));

    let key = [7; 256];
    let long = written(|out| write::cancel_request(out, -1, &key));
    assert_eq!(
        StartupPacket::parse(&long),
        Ok(StartupPacket::Cancel { pid: -1, key: &key })
    );
}

#[test]
fn authentication() {
    let check = |golden: &'static [u8], write: &dyn Fn(&mut Vec<u8>), expected| {
        let body = body(golden, backend::tag::AUTHENTICATION, write);
        assert_eq!(Authentication::parse(body), Ok(expected));
    };
    check(
        b"R\0\0\0\x08\0\0\0\0",
        &write::authentication_ok,
        Authentication::Ok,
    );
    check(
        b"R\0\0\0\x08\0\0\0\x03",
        &write::authentication_cleartext,
        Authentication::CleartextPassword,
    );
    check(
        b"R\0\0\0\x0c\0\0\0\x05salt",
        &|out| write::authentication_md5(out, *b"salt"),
        Authentication::Md5Password { salt: *b"salt" },
    );
    check(
        b"R\0\0\0\x0a\0\0\0\x0bhi",
        &|out| write::authentication_sasl_continue(out, b"hi"),
        Authentication::SaslContinue(b"hi"),
    );
    check(
        b"R\0\0\0\x08\0\0\0\x0c",
        &|out| write::authentication_sasl_final(out, b""),
        Authentication::SaslFinal(b""),
    );
    assert_eq!(
        Authentication::parse(b"\0\0\0\x08token"),
        Ok(Authentication::Other(8))
    );
}

#[test]
fn authentication_sasl() {
    let golden = b"R\0\0\0\x0e\0\0\0\x0aAB\0C\0\0";
    let body = body(golden, backend::tag::AUTHENTICATION, |out| {
        write::authentication_sasl(out, &[b"AB", b"C"]);
    });
    let Ok(Authentication::Sasl { mechanisms }) = Authentication::parse(body) else {
        panic!("not AuthenticationSASL");
    };
    assert!(mechanisms.eq([&b"AB"[..], b"C"]));
}

#[test]
fn backend_key_data() {
    let golden = b"K\0\0\0\x0c\0\0\0\x09\x01\x02\x03\x04";
    let expected = BackendKeyData {
        pid: 9,
        key: b"\x01\x02\x03\x04",
    };
    let body = body(golden, backend::tag::BACKEND_KEY_DATA, |out| {
        write::backend_key_data(out, expected.pid, expected.key);
    });
    assert_eq!(BackendKeyData::parse(body), Ok(expected));
    assert!(!format!("{expected:?}").contains("key"));
}

#[test]
fn parameter_status() {
    let golden = b"S\0\0\0\x0bTZ\0UTC\0";
    let body = body(golden, backend::tag::PARAMETER_STATUS, |out| {
        write::parameter_status(out, b"TZ", b"UTC");
    });
    assert_eq!(
        ParameterStatus::parse(body),
        Ok(ParameterStatus {
            name: b"TZ",
            value: b"UTC"
        })
    );
}

#[test]
fn ready_for_query() {
    for (letter, status) in [
        (b'I', TransactionStatus::Idle),
        (b'T', TransactionStatus::InTransaction),
        (b'E', TransactionStatus::Failed),
    ] {
        let golden = [b'Z', 0, 0, 0, 5, letter];
        let body = body(&golden, backend::tag::READY_FOR_QUERY, |out| {
            write::ready_for_query(out, status);
        });
        assert_eq!(ReadyForQuery::parse(body), Ok(ReadyForQuery { status }));
    }
}

#[test]
fn command_complete() {
    let golden = b"C\0\0\0\x0dSELECT 1\0";
    let body = body(golden, backend::tag::COMMAND_COMPLETE, |out| {
        write::command_complete(out, b"SELECT 1");
    });
    assert_eq!(
        CommandComplete::parse(body),
        Ok(CommandComplete { tag: b"SELECT 1" })
    );
}

#[test]
fn rows() {
    let golden = b"T\0\0\0\x2f\0\x02id\0\0\0\x40\0\0\x01\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01\
        n\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";
    let id = Column {
        table_oid: 16384,
        attribute: 1,
        format: Format::Binary,
        ..Column::new(b"id", 23, 4)
    };
    let columns = [id, Column::new(b"n", 25, -1)];
    let described = body(golden, backend::tag::ROW_DESCRIPTION, |out| {
        write::row_description(out, &columns);
    });
    assert!(
        RowDescription::parse(described)
            .expect("valid")
            .columns()
            .eq(columns)
    );

    let golden = b"D\0\0\0\x14\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0";
    let values = [Some(&b"ab"[..]), None, Some(b"")];
    let row = body(golden, backend::tag::DATA_ROW, |out| {
        write::data_row(out, values)
    });
    assert!(DataRow::parse(row).expect("valid").values().eq(values));
}

#[test]
fn parameter_description() {
    let golden = b"t\0\0\0\x0e\0\x02\0\0\0\x17\0\0\0\x19";
    let body = body(golden, backend::tag::PARAMETER_DESCRIPTION, |out| {
        write::parameter_description(out, &[23, 25]);
    });
    assert!(
        ParameterDescription::parse(body)
            .expect("valid")
            .types()
            .eq([23, 25])
    );
}

#[test]
fn negotiate_protocol_version() {
    let golden = b"v\0\0\0\x13\0\x03\0\x02\0\0\0\x01_pq_.x\0";
    let message = body(golden, backend::tag::NEGOTIATE_PROTOCOL_VERSION, |out| {
        write::negotiate_protocol_version(out, PROTOCOL_3_2, &[b"_pq_.x"]);
    });
    let negotiate = NegotiateProtocolVersion::parse(message).expect("valid");
    assert_eq!(
        (negotiate.minor, negotiate.newest()),
        (0x0003_0002, PROTOCOL_3_2)
    );
    assert!(negotiate.options.eq([b"_pq_.x"]));

    let as_in_the_manual = NegotiateProtocolVersion::parse(&[0; 8]).expect("valid");
    assert_eq!(as_in_the_manual.newest(), PROTOCOL_3_0);
}

#[test]
fn notification_response() {
    let golden = b"A\0\0\0\x0d\0\0\0\x01ch\0p\0";
    let body = body(golden, backend::tag::NOTIFICATION_RESPONSE, |out| {
        write::notification_response(out, 1, b"ch", b"p");
    });
    let expected = NotificationResponse {
        pid: 1,
        channel: b"ch",
        payload: b"p",
    };
    assert_eq!(NotificationResponse::parse(body), Ok(expected));
}

#[test]
fn error_and_notice() {
    let report = Report {
        detail: Some("d"),
        hint: Some("h"),
        ..Report::new(Severity::Fatal, SqlState::ADMIN_SHUTDOWN, "bye")
    };
    let golden = b"E\0\0\0\x25SFATAL\0VFATAL\0C57P01\0Mbye\0Dd\0Hh\0\0";
    let error = body(golden, backend::tag::ERROR_RESPONSE, |out| {
        write::error_response(out, &report);
    });
    let fields = ErrorFields::parse(error).expect("valid");
    assert_eq!(fields.sqlstate(), Some(SqlState::ADMIN_SHUTDOWN));
    assert_eq!(fields.get(backend::field::MESSAGE), Some(&b"bye"[..]));
    assert_eq!(fields.get(backend::field::HINT), Some(&b"h"[..]));
    assert_eq!(fields.get(backend::field::ROUTINE), None);

    let report = Report::new(Severity::Warning, SqlState::WARNING, "w");
    let golden = b"N\0\0\0\x21SWARNING\0VWARNING\0C01000\0Mw\0\0";
    let notice = body(golden, backend::tag::NOTICE_RESPONSE, |out| {
        write::notice_response(out, &report);
    });
    assert_eq!(ErrorFields::parse(notice).expect("valid").iter().count(), 4);
}

#[test]
fn error_fields_may_all_be_missing() {
    let fields = ErrorFields::parse(b"\0").expect("valid");
    assert_eq!((fields.sqlstate(), fields.iter().count()), (None, 0));
    let odd = ErrorFields::parse(b"Ckaput\0\0").expect("valid");
    assert_eq!((odd.sqlstate(), odd.get(b'C')), (None, Some(&b"kaput"[..])));
}

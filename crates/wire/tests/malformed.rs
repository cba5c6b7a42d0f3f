//! What a hostile or broken peer sends: each case with the error that it must be.

use wire::WireError::{self, *};
use wire::backend::{
    Authentication, BackendKeyData, CommandComplete, DataRow, ErrorFields,
    NegotiateProtocolVersion, NotificationResponse, ParameterDescription, ParameterStatus,
    ReadyForQuery, RowDescription,
};
use wire::frontend::{
    self, Bind, Close, CopyFail, Describe, Execute, FunctionCall, MAX_NAMES, Parse, Password,
    Query, SaslInitialResponse,
};
use wire::startup::{MAX_STARTUP_PACKET, ProtocolVersion, StartupPacket};
use wire::{Header, OptionsError, parse_options, write};

#[test]
fn headers() {
    for len in [0, 1, 3, 0x8000_0000, 0xffff_ffff_u32] {
        let header = [&b"Q"[..], &len.to_be_bytes()].concat();
        assert_eq!(Header::peek(&header), Err(Length(len)));
    }
    for len in [4, 5, 0x7fff_ffff_u32] {
        let header = [&b"Q"[..], &len.to_be_bytes()].concat();
        let peeked = Header::peek(&header).expect("valid").expect("whole");
        assert_eq!(
            (peeked.total(), peeked.body()),
            (len as usize + 1, len as usize - 4)
        );
    }
    for cut in 0..Header::SIZE {
        assert_eq!(Header::peek(&b"\0\0\0\0\0"[..cut]), Ok(None));
    }
}

/// Applies a view to a body and keeps only the error.
macro_rules! errors {
    ($($view:ident: $($body:expr => $error:expr),+;)+) => {
        $($(assert_eq!(
            $view::parse($body).map(drop),
            Err::<(), WireError>($error),
            "{} of {:?}", stringify!($view), $body
        );)+)+
    };
}

#[test]
fn frontend_messages() {
    errors! {
        Query: b"" => Unterminated, b"SELECT" => Unterminated, b"a\0b\0" => Trailing(2),
            b"\0\0" => Trailing(1);
        Parse: b"" => Unterminated, b"s\0" => Unterminated, b"s\0q" => Unterminated,
            b"s\0q\0" => Truncated, b"s\0q\0\0" => Truncated, b"s\0q\0\0\x01" => Truncated,
            b"s\0q\0\0\x01\0\0\0" => Truncated, b"s\0q\0\0\0x" => Trailing(1),
            b"s\0q\0\xff\xff\0\0\0\x01" => Truncated;
        Bind: b"" => Unterminated, b"p" => Unterminated, b"p\0s" => Unterminated;
        Describe: b"" => Truncated, b"S" => Unterminated, b"Ss" => Unterminated,
            b"X\0" => Target(b'X'), b"s\0" => Target(b's'), b"Ps\0\0" => Trailing(1);
        Close: b"" => Truncated, b"\0\0" => Target(0), b"P\0P" => Trailing(1);
        Execute: b"" => Unterminated, b"\0" => Truncated, b"\0\0\0\0" => Truncated,
            b"\0\0\0\0\0\0" => Trailing(1);
        CopyFail: b"" => Unterminated, b"\0x" => Trailing(1);
        Password: b"secret" => Unterminated, b"a\0b" => Trailing(1);
        SaslInitialResponse: b"" => Unterminated, b"M\0" => Truncated,
            b"M\0\xff\xff\xff\xfe" => Count(-2), b"M\0\0\0\0\x02x" => Truncated,
            b"M\0\xff\xff\xff\xffx" => Trailing(1), b"M\0\x7f\xff\xff\xff" => Truncated;
        FunctionCall: b"\0\0\0" => Truncated;
    }
    assert_eq!(frontend::no_body(b"x"), Err(Trailing(1)));
}

#[test]
fn backend_messages() {
    errors! {
        Authentication: b"" => Truncated, b"\0\0\0" => Truncated, b"\0\0\0\0\0" => Trailing(1),
            b"\0\0\0\x03x" => Trailing(1), b"\0\0\0\x05abc" => Truncated,
            b"\0\0\0\x05abcde" => Trailing(1), b"\0\0\0\x0a" => Terminator,
            b"\0\0\0\x0aA" => Unterminated, b"\0\0\0\x0aA\0" => Unterminated,
            b"\0\0\0\x0aA\0\0B\0" => Terminator;
        BackendKeyData: b"\0\0\0" => Truncated, b"\0\0\0\x01" => CancelKeyLength(0),
            b"\0\0\0\x01abc" => CancelKeyLength(3), &[0; 4 + 257] => CancelKeyLength(257);
        ParameterStatus: b"" => Unterminated, b"n\0" => Unterminated, b"n\0v\0x" => Trailing(1);
        ReadyForQuery: b"" => Truncated, b"II" => Trailing(1), b"X" => TransactionStatus(b'X'),
            b"i" => TransactionStatus(b'i');
        CommandComplete: b"" => Unterminated, b"SELECT 1" => Unterminated, b"\0\0" => Trailing(1);
        ErrorFields: b"" => Terminator, b"S" => Unterminated, b"SERROR" => Unterminated,
            b"SERROR\0" => Terminator, b"\0\0" => Terminator, b"S\0\0M\0\0" => Terminator;
        NegotiateProtocolVersion: b"\0\0\0\0" => Truncated, b"\0\0\0\0\xff\xff\xff\xff" => Count(-1),
            b"\0\0\0\0\0\0\0\x01" => Unterminated, b"\0\0\0\0\x7f\xff\xff\xffa\0" => Unterminated,
            b"\0\0\0\0\0\0\0\0a\0" => Trailing(2);
        NotificationResponse: b"\0\0" => Truncated, b"\0\0\0\x01c\0" => Unterminated,
            b"\0\0\0\x01c\0p\0\0" => Trailing(1);
        RowDescription: b"\0" => Truncated, b"\0\x01" => Unterminated, b"\0\0x" => Trailing(1),
            b"\0\x01c\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0" => Truncated,
            b"\0\x01c\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\x02" => Format(2);
        DataRow: b"" => Truncated, b"\0\x01" => Truncated, b"\0\x01\0\0\0\x01" => Truncated,
            b"\0\x01\xff\xff\xff\xfe" => Count(-2), b"\0\0x" => Trailing(1),
            b"\xff\xff\0\0\0\0" => Truncated;
        ParameterDescription: b"\0\x01\0\0\0" => Truncated, b"\0\0\0" => Trailing(1);
    }
}

/// A packet whose length word is right.
fn packet(code: u32, rest: &[u8]) -> Vec<u8> {
    let len = u32::try_from(rest.len() + 8).expect("short");
    [&len.to_be_bytes()[..], &code.to_be_bytes(), rest].concat()
}

#[test]
fn startup_packets() {
    const V3: u32 = 3 << 16;
    const CANCEL: u32 = 80_877_102;
    let version = |major, minor| Version(ProtocolVersion { major, minor });
    let cases = [
        (vec![], Truncated),
        (vec![0, 0, 0], Truncated),
        (vec![0, 0, 0, 7, 0, 3, 0], StartupLength(7)),
        (vec![0x16, 3, 1, 0], StartupLength(0x1603_0100)),
        (vec![0, 0, 0, 9, 0, 3, 0, 0], Truncated),
        ([packet(V3, b"\0"), vec![0]].concat(), Trailing(1)),
        (packet(80_877_103, b"x"), Trailing(1)),
        (packet(80_877_104, b"x"), Trailing(1)),
        (packet(80_877_105, b""), version(1234, 5681)),
        (packet(2 << 16, &[0; 100]), version(2, 0)),
        (packet(4 << 16, b"\0"), version(4, 0)),
        (packet(CANCEL, b"abc"), Truncated),
        (packet(CANCEL, b"\0\0\0\x01"), CancelKeyLength(0)),
        (packet(CANCEL, b"\0\0\0\x01abc"), CancelKeyLength(3)),
        (packet(CANCEL, &[0; 4 + 257]), CancelKeyLength(257)),
        (packet(V3, b""), Terminator),
        (packet(V3, b"user\0a\0x"), Terminator),
        (packet(V3, b"\0\0"), Terminator),
        (packet(V3, b"user\0\0"), Unterminated),
        (packet(V3, b"user\0a\0\0\0"), Terminator),
        (packet(V3, b"user\0a\0\0x\0y\0\0"), Terminator),
    ];
    for (bytes, error) in cases {
        assert_eq!(
            StartupPacket::parse(&bytes),
            Err(error),
            "{}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn startup_packet_limit_is_that_of_postgresql() {
    let word = |len: usize| u32::try_from(len).expect("short").to_be_bytes();
    let most = 4 + MAX_STARTUP_PACKET;
    assert_eq!(StartupPacket::peek_len(&word(most)), Ok(Some(most)));
    assert_eq!(
        StartupPacket::peek_len(&word(most + 1)),
        Err(StartupLength(10_005))
    );
    assert_eq!(StartupPacket::peek_len(&word(8)), Ok(Some(8)));
}

#[test]
fn bind_names_are_bounded() {
    let mut endless = vec![b'a'; MAX_NAMES - 2];
    assert_eq!(Bind::prefix(&endless), Ok(None));
    endless.extend_from_slice(b"\0\0rest");
    assert_eq!(
        Bind::prefix(&endless).map(|it| it.map(|names| names.2)),
        Ok(Some(MAX_NAMES))
    );
    endless.insert(0, b'a');
    assert_eq!(Bind::prefix(&endless), Err(NameTooLong));
    assert_eq!(Bind::parse(&endless), Err(NameTooLong));
    assert_eq!(Bind::prefix(&endless[..MAX_NAMES]), Err(NameTooLong));
    assert_eq!(Bind::prefix(&endless[..MAX_NAMES - 1]), Ok(None));
}

#[test]
fn options() {
    for (options, error) in [
        (&b"-c"[..], OptionsError::MissingArgument),
        (b"-c a=b -c", OptionsError::MissingArgument),
        (b"-c a", OptionsError::MissingValue),
        (b"-c =b", OptionsError::MissingValue),
        (b"--", OptionsError::MissingValue),
        (b"--geqo", OptionsError::MissingValue),
        (b"-d 5", OptionsError::Unsupported),
        (b"a=b", OptionsError::Unsupported),
        (b"-", OptionsError::Unsupported),
        (b"-c a=b c", OptionsError::Unsupported),
    ] {
        assert_eq!(
            parse_options(options),
            Err(error),
            "{}",
            options.escape_ascii()
        );
    }
}

/// A text with a NUL must not be able to smuggle a message.
#[cfg(debug_assertions)]
mod callers_faults {
    use super::*;

    #[test]
    #[should_panic(expected = "a string with a NUL inside")]
    fn nul_in_a_name() {
        write::query(&mut Vec::new(), b"a\0b");
    }

    #[test]
    #[should_panic(expected = "a startup parameter without a name")]
    fn nameless_parameter() {
        let parameters = [(&b""[..], &b"x"[..])];
        write::startup(&mut Vec::new(), wire::startup::PROTOCOL_3_0, parameters);
    }
}

#[cfg(not(debug_assertions))]
mod callers_faults {
    use super::*;

    #[test]
    fn nul_in_a_name_cuts_it() {
        let mut out = Vec::new();
        write::query(&mut out, b"a\0b");
        assert_eq!(out, b"Q\0\0\0\x06a\0");
    }

    #[test]
    fn nameless_parameter_is_left_out() {
        let mut out = Vec::new();
        let parameters = [(&b""[..], &b"x"[..]), (b"\0user", b"x"), (b"user", b"a\0b")];
        write::startup(&mut out, wire::startup::PROTOCOL_3_0, parameters);
        let Ok(StartupPacket::Startup(startup)) = StartupPacket::parse(&out) else {
            panic!("not a StartupMessage");
        };
        assert!(startup.parameters().eq([(&b"user"[..], &b"a"[..])]));
    }

    #[test]
    fn list_beyond_its_count_is_cut() {
        let mut out = Vec::new();
        write::parameter_description(&mut out, &vec![25; 65_536]);
        let types = ParameterDescription::parse(&out[Header::SIZE..]).expect("valid");
        assert_eq!(types.types().count(), 65_535);
    }
}

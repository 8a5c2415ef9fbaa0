//! Messages with descriptors between the two processes, over a pair of sockets that keep messages apart.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Most descriptors of a message.
const MOST: usize = 5;
/// Longest text of a message.
const TEXT: usize = 2048;

/// Sends a text, which must not be empty, and at most five descriptors.
///
/// # Errors
/// The system's, when the other process has ended.
pub fn send(channel: impl AsFd, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut end = text.len().min(TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // A process that has ended is an error here, not a signal.
    sendmsg(channel, &[IoSlice::new(&text.as_bytes()[..end])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for a message. The text is empty when the other process has ended.
///
/// # Errors
/// The system's.
pub fn receive(channel: impl AsFd) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; TEXT];
    let received = loop {
        match recvmsg(&channel, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok((String::from_utf8_lossy(&text[..received.bytes]).into_owned(), descriptors))
}

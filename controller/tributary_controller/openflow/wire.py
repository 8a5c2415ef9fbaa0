"""OpenFlow 1.3 messages as plain values. The only module that knows os-ken, whose types are untyped.

Source: OpenFlow Switch Specification 1.3.5. Nothing here opens a connection or keeps state.
"""

import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

# os-ken logs a traceback for each malformed message; the connection reports it as one line instead.
logging.getLogger("os_ken.ofproto.ofproto_parser").setLevel(logging.CRITICAL + 1)

VERSION: int = of.OFP_VERSION
HEADER_BYTES = 8
CONTROLLER: int = of.OFPP_CONTROLLER
IN_PORT: int = of.OFPP_IN_PORT
# Ports above are names for special actions, not places.
LARGEST_PORT: int = of.OFPP_MAX
NO_BUFFER: int = of.OFP_NO_BUFFER

_DESCRIPTION: Any = ProtocolDesc(version=VERSION)

# What os-ken reads here. With other messages, among them flow statistics, it does not end if a length within is zero.
_READ = {
    of.OFPT_ERROR,
    of.OFPT_ECHO_REQUEST,
    of.OFPT_ECHO_REPLY,
    of.OFPT_FEATURES_REPLY,
    of.OFPT_PACKET_IN,
    of.OFPT_PORT_STATUS,
}
_READ_MULTIPART = {of.OFPMP_PORT_STATS, of.OFPMP_PORT_DESC}


class MalformedMessage(Exception):
    """The peer sent what OpenFlow 1.3 does not allow. The text names message type and fault."""


@dataclass(frozen=True)
class Hello:
    version: int


@dataclass(frozen=True)
class EchoRequest:
    xid: int
    data: bytes


@dataclass(frozen=True)
class EchoReply:
    data: bytes


@dataclass(frozen=True)
class Features:
    dpid: int
    auxiliary: int


@dataclass(frozen=True)
class Port:
    number: int
    name: str
    live: bool


@dataclass(frozen=True)
class Ports:
    ports: tuple[Port, ...]
    more: bool


@dataclass(frozen=True)
class PortStatus:
    deleted: bool
    port: Port


@dataclass(frozen=True)
class PacketIn:
    in_port: int
    frame: bytes


@dataclass(frozen=True)
class PortCounters:
    port: int
    received: int
    sent: int


@dataclass(frozen=True)
class PortStatistics:
    counters: tuple[PortCounters, ...]


@dataclass(frozen=True)
class FlowCounters:
    cookie: int
    bytes: int


@dataclass(frozen=True)
class FlowStatistics:
    counters: tuple[FlowCounters, ...]


@dataclass(frozen=True)
class Refusal:
    """The switch refused message `xid`."""

    xid: int
    kind: int
    code: int


@dataclass(frozen=True)
class Other:
    type: int


Message = (
    Hello
    | EchoRequest
    | EchoReply
    | Features
    | Ports
    | PortStatus
    | PacketIn
    | PortStatistics
    | FlowStatistics
    | Refusal
    | Other
)


def read(buffer: bytes) -> Message:
    """Reads one whole message. Raises `MalformedMessage`."""
    if len(buffer) < HEADER_BYTES:
        raise MalformedMessage(f"{len(buffer)} bytes are less than a header")
    version, kind, length, xid = ofproto_parser.header(buffer)
    if length != len(buffer):
        raise MalformedMessage(f"length field {length}, {len(buffer)} bytes given")
    # A hello of any version is readable: it carries the highest that the peer knows.
    if kind == of.OFPT_HELLO:
        return Hello(version)
    if version != VERSION:
        raise MalformedMessage(f"message of version {version:#04x}; this controller speaks OpenFlow 1.3 (0x04) only")
    multipart = int.from_bytes(buffer[8:10], "big") if kind == of.OFPT_MULTIPART_REPLY else None
    try:
        if multipart == of.OFPMP_FLOW:
            return _flow_statistics(buffer)
        if kind not in _READ and multipart not in _READ_MULTIPART:
            return Other(kind)
        message = ofproto_parser.msg(_DESCRIPTION, version, kind, length, xid, buffer)
        if message is None:
            raise ValueError("its fields do not fit its length")
        return _plain(message)
    except Exception as error:  # os-ken raises assertion, struct, key and index errors alike.
        raise MalformedMessage(f"message type {kind} of {length} bytes: {error or type(error).__name__}") from None


def _plain(message: Any) -> Message:
    match type(message):
        case parser.OFPEchoRequest:
            return EchoRequest(message.xid, bytes(message.data or b""))
        case parser.OFPEchoReply:
            return EchoReply(bytes(message.data or b""))
        case parser.OFPSwitchFeatures:
            return Features(message.datapath_id, message.auxiliary_id)
        case parser.OFPPortDescStatsReply:
            return Ports(tuple(map(_port, message.body)), bool(message.flags & of.OFPMPF_REPLY_MORE))
        case parser.OFPPortStatus:
            return PortStatus(message.reason == of.OFPPR_DELETE, _port(message.desc))
        case parser.OFPPacketIn:
            return PacketIn(message.match["in_port"], bytes(message.data))
        case parser.OFPPortStatsReply:
            body = message.body
            return PortStatistics(tuple(PortCounters(one.port_no, one.rx_packets, one.tx_packets) for one in body))
        case parser.OFPErrorMsg:
            return Refusal(message.xid, message.type, getattr(message, "code", 0))
        case _:
            return Other(message.msg_type)


def _flow_statistics(buffer: bytes) -> FlowStatistics:
    """Entries of OpenFlow §7.3.5.2: length, cookie, packets, bytes, and what nobody needs here."""
    counters = []
    at = of.OFP_MULTIPART_REPLY_SIZE
    while at < len(buffer):
        length, cookie, count = struct.unpack_from("!H22xQ8xQ", buffer, at)
        if not of.OFP_FLOW_STATS_SIZE <= length <= len(buffer) - at:
            raise ValueError(f"an entry of {length} bytes")
        counters.append(FlowCounters(cookie, count))
        at += length
    return FlowStatistics(tuple(counters))


def _port(port: Any) -> Port:
    down = port.config & of.OFPPC_PORT_DOWN or port.state & of.OFPPS_LINK_DOWN
    name = port.name if isinstance(port.name, str) else bytes(port.name).decode("ascii", "replace")
    return Port(port.port_no, name.rstrip("\0")[:16], not down)


@dataclass(frozen=True)
class Rule:
    """One flow entry. `match` has OpenFlow's field names; `output` is a port, None drops."""

    cookie: int
    priority: int
    match: dict[str, Any] = field(hash=False)
    output: int | None = None
    set_destination: bytes | None = None
    metered: bool = False


# The one meter: frames a second that hosts may send to the controller, for each switch.
METER = 1
METER_RATE = 200


def _bytes(message: Any, xid: int) -> bytes:
    message.set_xid(xid)
    message.serialize()
    return bytes(message.buf)


def hello(xid: int) -> bytes:
    bitmap = parser.OFPHelloElemVersionBitmap(versions=[VERSION])
    return _bytes(parser.OFPHello(_DESCRIPTION, elements=[bitmap]), xid)


def echo_request(xid: int, data: bytes) -> bytes:
    return _bytes(parser.OFPEchoRequest(_DESCRIPTION, data=data), xid)


def echo_reply(xid: int, data: bytes) -> bytes:
    return _bytes(parser.OFPEchoReply(_DESCRIPTION, data=data), xid)


def features_request(xid: int) -> bytes:
    return _bytes(parser.OFPFeaturesRequest(_DESCRIPTION), xid)


def ports_request(xid: int) -> bytes:
    return _bytes(parser.OFPPortDescStatsRequest(_DESCRIPTION, 0), xid)


def port_statistics_request(xid: int) -> bytes:
    return _bytes(parser.OFPPortStatsRequest(_DESCRIPTION, 0, of.OFPP_ANY), xid)


def flow_statistics_request(xid: int, cookie: int, mask: int) -> bytes:
    request = parser.OFPFlowStatsRequest(
        _DESCRIPTION, 0, of.OFPTT_ALL, of.OFPP_ANY, of.OFPG_ANY, cookie, mask, parser.OFPMatch()
    )
    return _bytes(request, xid)


def packet_out(xid: int, frame: bytes, ports: Sequence[int]) -> bytes:
    actions = [parser.OFPActionOutput(port, of.OFPCML_NO_BUFFER) for port in ports]
    message = parser.OFPPacketOut(_DESCRIPTION, of.OFP_NO_BUFFER, of.OFPP_CONTROLLER, actions, frame)
    return _bytes(message, xid)


def add_rule(xid: int, rule: Rule) -> bytes:
    actions = []
    if rule.set_destination is not None:
        actions.append(parser.OFPActionSetField(eth_dst=rule.set_destination.hex(":")))
    if rule.output is not None:
        actions.append(parser.OFPActionOutput(rule.output, of.OFPCML_NO_BUFFER))
    instructions = []
    if rule.metered:
        instructions.append(parser.OFPInstructionMeter(METER, of.OFPIT_METER))
    if actions:
        instructions.append(parser.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, actions))
    message = parser.OFPFlowMod(
        _DESCRIPTION,
        cookie=rule.cookie,
        command=of.OFPFC_ADD,
        priority=rule.priority,
        match=parser.OFPMatch(**rule.match),
        instructions=instructions,
    )
    return _bytes(message, xid)


def delete_rules(xid: int, cookie: int, mask: int) -> bytes:
    message = parser.OFPFlowMod(
        _DESCRIPTION,
        cookie=cookie,
        cookie_mask=mask,
        table_id=of.OFPTT_ALL,
        command=of.OFPFC_DELETE,
        out_port=of.OFPP_ANY,
        out_group=of.OFPG_ANY,
        match=parser.OFPMatch(),
    )
    return _bytes(message, xid)


def add_meter(xid: int) -> bytes:
    band = parser.OFPMeterBandDrop(rate=METER_RATE, burst_size=METER_RATE)
    message = parser.OFPMeterMod(_DESCRIPTION, of.OFPMC_ADD, of.OFPMF_PKTPS | of.OFPMF_BURST, METER, [band])
    return _bytes(message, xid)


def delete_meter(xid: int) -> bytes:
    return _bytes(parser.OFPMeterMod(_DESCRIPTION, of.OFPMC_DELETE, 0, METER, []), xid)

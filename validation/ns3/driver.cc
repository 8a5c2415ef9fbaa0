// One bulk transfer (or n of them) over one bottleneck in ns-3, measured the way the simulator's own runs are.
//
// A yardstick for `tributary-lab bench simulator`, built against Debian's libns3-dev 3.37; nothing that runs for a user
// links to it. One source host and one sink host joined by a point-to-point link: drop-tail queue in bytes at the
// source's device, no queue discipline above it, Bernoulli loss at the receiver, a return direction that is as fast
// and never full. Prints one JSON object. README.md beside this file says what each parameter is and why.
//
// Source: ns-3 3.37 manual and model library (TCP models in ns-3, point-to-point, error models).

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/// TCP timestamps and SACK leave 1448 bytes of a 1500 byte packet.
constexpr uint32_t SEGMENT = 1448;
/// The point-to-point header of every packet on the link.
constexpr uint32_t PPP = 2;
constexpr uint32_t PACKET = SEGMENT + 52 + PPP;

/// What one run is told; units last in the names.
struct Options
{
    uint64_t rateBps = 100'000'000;
    uint64_t delayUs = 10'000;
    uint64_t bufferBytes = 0;
    double bufferBdp = 1.0;
    std::string congestion = "cubic";
    uint32_t flows = 1;
    double staggerS = 0.0;
    double durationS = 10.0;
    uint64_t transferBytes = 0;
    double loss = 0.0;
    uint32_t seed = 1;
    uint64_t windowBytes = 0;
    double sampleS = 0.01;
    bool pacing = false;
    bool hystart = true;
    bool linuxHystart = true;
    std::string recovery = "prr";
    std::string scheduler = "ns3::MapScheduler";

    double RttSeconds() const
    {
        return 2e-6 * delayUs;
    }

    double BdpBytes() const
    {
        return rateBps / 8.0 * RttSeconds();
    }
};

/// What one run saw.
struct Samples
{
    std::vector<uint64_t> receivedAtSecond;
    std::vector<std::pair<double, uint32_t>> cwnd;
    double completedAtS = -1.0;
};

Options
Parse(int argc, char** argv)
{
    Options o;
    CommandLine cmd(__FILE__);
    cmd.AddValue("rate", "bottleneck rate, bit/s", o.rateBps);
    cmd.AddValue("delay", "one-way delay, microseconds", o.delayUs);
    cmd.AddValue("buffer", "bottleneck queue, bytes (0: from bdp)", o.bufferBytes);
    cmd.AddValue("bdp", "bottleneck queue, bandwidth-delay products", o.bufferBdp);
    cmd.AddValue("cc", "cubic, reno (as Linux), newreno (RFC 6582) or bbr", o.congestion);
    cmd.AddValue("flows", "flows at once", o.flows);
    cmd.AddValue("stagger", "seconds between the starts of two flows", o.staggerS);
    cmd.AddValue("duration", "seconds, simulated", o.durationS);
    cmd.AddValue("transfer", "bytes of each flow (0: as much as fits)", o.transferBytes);
    cmd.AddValue("loss", "probability that a packet to the sink is lost", o.loss);
    cmd.AddValue("seed", "run number of the random streams, from 1", o.seed);
    cmd.AddValue("window", "socket buffers, bytes (0: 4 x (bdp + buffer) / flows)", o.windowBytes);
    cmd.AddValue("sample", "seconds between samples of the first flow's cwnd (0: none)", o.sampleS);
    cmd.AddValue("pacing", "pace reno and cubic as well", o.pacing);
    cmd.AddValue("hystart", "hybrid slow start of cubic", o.hystart);
    cmd.AddValue("linux-hystart", "its delay threshold as Linux has it, rtt/8 within 4..16 ms", o.linuxHystart);
    cmd.AddValue("recovery", "prr or classic", o.recovery);
    cmd.AddValue("scheduler", "TypeId of the event scheduler", o.scheduler);
    cmd.Parse(argc, argv);
    return o;
}

[[noreturn]] void
Refuse(const std::string& why)
{
    std::cerr << "ns-3 driver: " << why << "\n";
    std::exit(2);
}

void
Validate(Options& o)
{
    if (o.rateBps == 0 || o.flows == 0 || o.durationS <= 0 || o.seed == 0)
    {
        Refuse("rate, flows, duration and seed must be positive");
    }
    if (o.loss < 0 || o.loss >= 1)
    {
        Refuse("loss must be within 0..1");
    }
    // A queue that holds no packet at all would pass nothing but what finds the link idle.
    if (o.bufferBytes == 0)
    {
        o.bufferBytes = static_cast<uint64_t>(o.bufferBdp * o.BdpBytes());
    }
    o.bufferBytes = std::max<uint64_t>(o.bufferBytes, 2 * PACKET);
    if (o.windowBytes == 0)
    {
        // Never what limits, yet no more: ns-3's cost per packet grows with what the send buffer holds.
        o.windowBytes = static_cast<uint64_t>(4 * (o.BdpBytes() + o.bufferBytes) / o.flows);
    }
    // ns-3 keeps the sizes of sockets in 32 bits.
    o.windowBytes = std::clamp<uint64_t>(o.windowBytes, 1 << 18, 1 << 30);
}

/// The class of the congestion control; `reno` is Linux's, which counts bytes in slow start (RFC 3465).
TypeId
CongestionType(const std::string& name)
{
    if (name == "cubic")
    {
        return TcpCubic::GetTypeId();
    }
    if (name == "reno")
    {
        return TcpLinuxReno::GetTypeId();
    }
    if (name == "newreno")
    {
        return TcpNewReno::GetTypeId();
    }
    if (name == "bbr")
    {
        return TcpBbr::GetTypeId();
    }
    Refuse("unknown congestion control " + name + "; known: cubic, reno, newreno, bbr");
}

/// Linux's values where ns-3's own differ.
void
ConfigureTcp(const Options& o)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(CongestionType(o.congestion)));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType",
                       TypeIdValue(o.recovery == "classic" ? TcpClassicRecovery::GetTypeId()
                                                           : TcpPrrRecovery::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(o.windowBytes));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(o.windowBytes));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    // The time-out is the smoothed round trip and at least this: Linux's floor is of the deviation, not of the
    // sum. With ns-3's own 1 ms a steady round trip of 200 ms times out as soon as the queue grows.
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MilliSeconds(200)));
    // The default cap of 4 Gbit/s would bind BBR at 10 Gbit/s.
    Config::SetDefault("ns3::TcpSocketState::MaxPacingRate", DataRateValue(DataRate(1'000'000'000'000)));
    Config::SetDefault("ns3::TcpSocketState::EnablePacing", BooleanValue(o.pacing || o.congestion == "bbr"));
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(o.hystart));
    if (o.linuxHystart)
    {
        // ns-3 compares the rise of the delay with the whole round trip, Linux with an eighth of it.
        const double eighth = std::clamp(o.RttSeconds() / 8, 0.004, 0.016);
        Config::SetDefault("ns3::TcpCubic::HyStartDelayMin", TimeValue(Seconds(eighth)));
        Config::SetDefault("ns3::TcpCubic::HyStartDelayMax", TimeValue(Seconds(eighth)));
    }
}

/// Kilobytes of memory resident now.
long
ResidentKb()
{
    std::ifstream statm("/proc/self/statm");
    long size = 0;
    long resident = 0;
    statm >> size >> resident;
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/// Seconds of processor time that this process has used.
double
ProcessorSeconds()
{
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

/// The two hosts, the link between them, the flows over it.
class Bottleneck
{
  public:
    explicit Bottleneck(const Options& options)
        : m_options(options)
    {
        NodeContainer nodes;
        nodes.Create(2);
        Join(nodes);
        InternetStackHelper stack;
        stack.Install(nodes);
        Ipv4AddressHelper addresses;
        addresses.SetBase("10.0.0.0", "255.255.255.0");
        const auto interfaces = addresses.Assign(m_devices);
        // ns-3 puts fq_codel above a device that has flow control, when the address is assigned.
        if (nodes.Get(0)->GetObject<TrafficControlLayer>()->GetRootQueueDiscOnDevice(m_devices.Get(0)))
        {
            Refuse("there is a queue discipline above the device");
        }
        for (uint32_t flow = 0; flow < options.flows; ++flow)
        {
            AddFlow(nodes, interfaces.GetAddress(1), flow);
        }
    }

    Samples& Result()
    {
        return m_samples;
    }

    uint64_t ReceivedBytes() const
    {
        uint64_t sum = 0;
        for (const auto& sink : m_sinks)
        {
            sum += sink->GetTotalRx();
        }
        return sum;
    }

    /// Packets that the source gave to the link's queue, dropped ones among them.
    uint64_t OfferedPackets() const
    {
        return SourceQueue()->GetTotalReceivedPackets() + SourceQueue()->GetTotalDroppedPacketsBeforeEnqueue();
    }

    uint64_t DroppedPackets() const
    {
        return SourceQueue()->GetTotalDroppedPackets();
    }

    /// Called every simulated second.
    void EverySecond()
    {
        m_samples.receivedAtSecond.push_back(ReceivedBytes());
        Simulator::Schedule(Seconds(1), &Bottleneck::EverySecond, this);
    }

    /// Called every `sampleS`; the first flow's window.
    void EverySample()
    {
        m_samples.cwnd.emplace_back(Simulator::Now().GetSeconds(), m_cwnd);
        Simulator::Schedule(Seconds(m_options.sampleS), &Bottleneck::EverySample, this);
    }

    /// The socket exists once the application has started.
    void WatchWindow()
    {
        const auto source = DynamicCast<BulkSendApplication>(m_source);
        if (const auto socket = source->GetSocket())
        {
            socket->TraceConnectWithoutContext("CongestionWindow", MakeCallback(&Bottleneck::OnWindow, this));
        }
    }

  private:
    void Join(const NodeContainer& nodes)
    {
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(m_options.rateBps)));
        link.SetDeviceAttribute("Mtu", UintegerValue(1500));
        link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(m_options.delayUs)));
        // With flow control there would be a queue discipline above the device, which drops in its own way.
        link.DisableFlowControl();
        const QueueSize returning(QueueSizeUnit::BYTES, std::max<uint64_t>(m_options.bufferBytes, 1 << 28));
        link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(returning));
        m_devices = link.Install(nodes);
        SourceQueue()->SetMaxSize(QueueSize(QueueSizeUnit::BYTES, m_options.bufferBytes));
        if (m_options.loss > 0)
        {
            auto model = CreateObject<RateErrorModel>();
            model->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
            model->SetRate(m_options.loss);
            m_devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(model));
        }
    }

    Ptr<Queue<Packet>> SourceQueue() const
    {
        return DynamicCast<PointToPointNetDevice>(m_devices.Get(0))->GetQueue();
    }

    void AddFlow(const NodeContainer& nodes, Ipv4Address sinkAddress, uint32_t flow)
    {
        const uint16_t port = 1000 + flow;
        PacketSinkHelper sinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        auto sink = sinkHelper.Install(nodes.Get(1));
        sink.Start(Seconds(0));
        m_sinks.push_back(DynamicCast<PacketSink>(sink.Get(0)));
        BulkSendHelper sourceHelper("ns3::TcpSocketFactory", InetSocketAddress(sinkAddress, port));
        sourceHelper.SetAttribute("MaxBytes", UintegerValue(m_options.transferBytes));
        // Whole segments: the socket need not join pieces of two writes.
        sourceHelper.SetAttribute("SendSize", UintegerValue(SEGMENT));
        auto source = sourceHelper.Install(nodes.Get(0));
        source.Start(Seconds(flow * m_options.staggerS));
        if (flow == 0)
        {
            m_source = source.Get(0);
        }
        if (m_options.transferBytes > 0)
        {
            sink.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Bottleneck::OnReceived, this));
        }
    }

    void OnWindow(uint32_t, uint32_t now)
    {
        m_cwnd = now;
    }

    /// Ends the run when the last byte of the last transfer has arrived.
    void OnReceived(Ptr<const Packet> packet, const Address&)
    {
        m_arrived += packet->GetSize();
        if (m_arrived >= m_options.transferBytes * m_options.flows && m_samples.completedAtS < 0)
        {
            m_samples.completedAtS = Simulator::Now().GetSeconds();
            Simulator::Stop();
        }
    }

    const Options& m_options;
    Samples m_samples;
    NetDeviceContainer m_devices;
    std::vector<Ptr<PacketSink>> m_sinks;
    Ptr<Application> m_source;
    uint32_t m_cwnd = 10 * SEGMENT;
    uint64_t m_arrived = 0;
};

/// The JSON object; times in seconds, rates in bit/s.
class Report
{
  public:
    Report(const Options& o, const Samples& s)
        : m_options(o),
          m_samples(s)
    {
    }

    void Print(const Bottleneck& net, double wallS, double cpuS, long baseKb) const
    {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        const double endS = m_samples.completedAtS >= 0 ? m_samples.completedAtS : m_options.durationS;
        const uint64_t received = net.ReceivedBytes();
        std::printf("{\"simulator\":\"ns-3 3.37\",\"congestion\":\"%s\",\"rate_bps\":%" PRIu64 ",\"delay_us\":%" PRIu64
                    ",\"buffer_bytes\":%" PRIu64 ",\"flows\":%u,\"loss\":%g,\"seed\":%u,\"duration_s\":%g",
                    m_options.congestion.c_str(),
                    m_options.rateBps,
                    m_options.delayUs,
                    m_options.bufferBytes,
                    m_options.flows,
                    m_options.loss,
                    m_options.seed,
                    m_options.durationS);
        std::printf(",\"received_bytes\":%" PRIu64 ",\"goodput_bps\":%.0f", received, received * 8 / endS);
        if (m_samples.completedAtS >= 0)
        {
            std::printf(",\"completed_s\":%.6f", m_samples.completedAtS);
        }
        std::printf(",\"data_packets\":%" PRIu64 ",\"offered_packets\":%" PRIu64 ",\"dropped_packets\":%" PRIu64,
                    received / SEGMENT,
                    net.OfferedPackets(),
                    net.DroppedPackets());
        std::printf(",\"wall_s\":%.6f,\"cpu_s\":%.6f,\"data_packets_per_wall_s\":%.0f,\"base_rss_kb\":%ld,"
                    "\"peak_rss_kb\":%ld",
                    wallS,
                    cpuS,
                    received / SEGMENT / wallS,
                    baseKb,
                    usage.ru_maxrss);
        PrintSeconds();
        PrintWindows();
        std::printf("}\n");
    }

  private:
    void PrintSeconds() const
    {
        std::printf(",\"goodput_bps_per_second\":[");
        uint64_t before = 0;
        for (size_t i = 0; i < m_samples.receivedAtSecond.size(); ++i)
        {
            std::printf("%s%" PRIu64, i ? "," : "", (m_samples.receivedAtSecond[i] - before) * 8);
            before = m_samples.receivedAtSecond[i];
        }
        std::printf("]");
    }

    void PrintWindows() const
    {
        std::printf(",\"cwnd_bytes\":[");
        for (size_t i = 0; i < m_samples.cwnd.size(); ++i)
        {
            std::printf("%s[%.3f,%u]", i ? "," : "", m_samples.cwnd[i].first, m_samples.cwnd[i].second);
        }
        std::printf("]");
    }

    const Options& m_options;
    const Samples& m_samples;
};

} // namespace

int
main(int argc, char** argv)
{
    Options options = Parse(argc, argv);
    Validate(options);
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(options.seed);
    ObjectFactory scheduler;
    scheduler.SetTypeId(options.scheduler);
    Simulator::SetScheduler(scheduler);
    ConfigureTcp(options);

    const long baseKb = ResidentKb();
    Bottleneck net(options);
    Simulator::Schedule(Seconds(1), &Bottleneck::EverySecond, &net);
    if (options.sampleS > 0)
    {
        Simulator::Schedule(NanoSeconds(1), &Bottleneck::WatchWindow, &net);
        Simulator::Schedule(Seconds(options.sampleS), &Bottleneck::EverySample, &net);
    }
    // A nanosecond later than the last sample, so that the last second is complete.
    Simulator::Stop(Seconds(options.durationS) + NanoSeconds(1));
    const auto start = std::chrono::steady_clock::now();
    const double cpuStart = ProcessorSeconds();
    Simulator::Run();
    const double cpu = ProcessorSeconds() - cpuStart;
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    Report(options, net.Result()).Print(net, wall.count(), cpu, baseKb);
    Simulator::Destroy();
    return 0;
}

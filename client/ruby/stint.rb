# frozen_string_literal: true

require "digest"
require "ipaddr"
require "json"
require "openssl"
require "securerandom"
require "socket"
require "time"
require "uri"

# Client of stint, the rate limiter and quota service that counts exactly. One file on the standard library, for Ruby 3.0+.
#
#   limits = Stint.new(["http://127.0.0.1:7400"])
#   decision = limits.check({policy: "login", key: "user:42"})
#   puts "wait #{decision.retry_after_seconds} s" unless decision.allowed?
#
# A denial is a Decision, never an error. An error is a Stint::Error, never a denial. Stint::Limit is a Rack middleware.
# README.md is the manual.
#
# All methods may be called by any number of threads. A program needs one client. After a fork, each process may use it:
# connections are not shared.
class Stint
  # Why there is no decision. It is never a denial.
  class Error < StandardError
    NO_DECISION = %w[unavailable aborted deadline_exceeded canceled internal unknown data_loss resource_exhausted].freeze
    private_constant :NO_DECISION

    # code: name of the RPC code, as in "unavailable".
    attr_reader :code, :detail

    def initialize(code, detail, maybe_applied: false)
      super("stint: #{code}: #{detail}")
      @code = code
      @detail = detail
      @maybe_applied = maybe_applied
    end

    # The request was counted once or not at all. False: it was certainly not counted.
    def maybe_applied? = @maybe_applied

    # The cluster could not decide: the case for a fail mode. False: the request will never be right, or its key has no room.
    def no_decision? = NO_DECISION.include?(code) && !no_room?

    # The cluster refuses another key (max_keys, or a full shard). A stranger can cause it: let no request pass for it.
    def no_room? = detail.include?("until old ones end")

    # The policy refuses keys without an override (unknown_key: deny), and this key has none.
    def unknown_key? = code == "not_found" && detail.match?(/\A(check\.)?entries\[\d+\]\.key: /)
  end

  # State of one limit after a decision. retry_after: seconds. soft: where it has no room, it asks for a challenge.
  LimitStatus = Struct.new(:policy, :limit, :key, :quota, :used, :held, :remaining, :granted, :window_start, :reset_at, :retry_after,
                           :allowed, :shadow, :unlimited, :lockout_level, :blocked_until, :soft, keyword_init: true)

  # Allowed or denied, with the state of every limit. decision_id: handle for a refund; empty for a denial. reason: safe to show.
  # retry_after: seconds; nil: no wait helps. headers: to copy into a response. replayed: counted before, under the same id, and
  # not again. challenge: not allowed, and only limits with on_exceeded: challenge say no: ask for a proof of a person. leased:
  # from a lease, as of its grant: used contains all of the lease, and there is no decision_id.
  Decision = Struct.new(:allowed, :decision_id, :limits, :denied_by, :reason, :retry_after, :decided_at, :headers, :hold_id,
                        :hold_expires_at, :replayed, :shadow_denied, :explanation, :challenge, :leased, keyword_init: true) do
    alias_method :allowed?, :allowed
    alias_method :challenge?, :challenge

    # The wait in whole seconds, rounded up, 1 at least.
    def retry_after_seconds = retry_after && [1, retry_after.ceil].max
  end

  # As an idempotency id: a new one for each call.
  DRAWN = Object.new.freeze

  PAUSE_LEAST = 0.010 # seconds
  PAUSE_MOST = 0.200
  ATTEMPT_LEAST = 0.250 # what one address is given at least before the next is asked
  REST_LEAST = 0.050 # less is left out: such an attempt could only make a certain failure unsure
  private_constant :PAUSE_LEAST, :PAUSE_MOST, :ATTEMPT_LEAST, :REST_LEAST

  # addresses are base URLs of some nodes; the next one is asked when one does not answer. timeout: seconds for a call with all
  # its attempts; finding the address of a host name is not bounded by it. tls: parameters of an OpenSSL::SSL::SSLContext, as in
  # {ca_file: "/etc/stint/ca.pem"}.
  def initialize(addresses, token: "", timeout: 5, namespace: "", tls: {})
    if !addresses.is_a?(Array) || addresses.empty?
      raise ArgumentError, "stint: no address: give a list with the base URL of one node at least, as in http://127.0.0.1:7400"
    end
    raise ArgumentError, "stint: timeout must be a number of seconds above 0" unless Stint.span?(timeout)
    raise ArgumentError, "stint: the token is not one that stint gave out" if token.match?(/[^\x21-\x7e]/)

    @nodes = addresses.map { |address| Node.new(address, !token.empty?, tls) }
    @token = token
    @timeout = timeout
    @namespace = namespace
    @next = rand(@nodes.length) # index of the node to ask: the last one that answered
  end

  # Closes idle connections. Calls under way end by themselves.
  def close = @nodes.each(&:close)

  # Decides and counts: all entries or none. An entry is {policy:, key:}, perhaps with cost, tier or limits; several are a list.
  # mode: enforce, count, peek or partial. idempotency_id: by default a new one, so that a retry counts once; nil: none, and a
  # request that may have been counted is not repeated. timeout: seconds, in place of the client's.
  def check(entries, mode: nil, idempotency_id: DRAWN, explain: false, timeout: nil, namespace: nil)
    request = check_of(entries, mode, idempotency_id, explain, namespace)
    decision_of(call("Check", request, request[:idempotencyId] != "", timeout))
  end

  # Takes units as a hold that settle ends. ttl: seconds. on_expire: cancel or commit; nil: the policy's.
  def reserve(entries, ttl: 60, on_expire: nil, idempotency_id: DRAWN, timeout: nil, namespace: nil)
    check = check_of(entries, nil, idempotency_id, false, namespace)
    request = {check: check, ttl: seconds(ttl)}
    request[:onExpire] = "ON_EXPIRE_#{on_expire.to_s.upcase}" if on_expire
    decision_of(call("Reserve", request, check[:idempotencyId] != "", timeout))
  end

  # Ends a hold (commit, cancel, success, failed), makes it live longer (extend, with ttl in seconds), or gives back what a decision
  # took (cancel). The same settlement sent again does nothing. target: the Decision, or the id of a hold; decision_id: in its
  # place, the id of a decision.
  def settle(target, action, actual_cost: nil, overage: nil, ttl: nil, decision_id: nil, timeout: nil)
    hold = target.is_a?(Decision) ? target.hold_id : target.to_s
    decided = decision_id || (target.is_a?(Decision) ? target.decision_id : "")
    action = action.to_s
    raise invalid("target: has no hold and no decision: a denial has nothing to settle") if hold.empty? && decided.empty?
    unless %w[commit cancel success failed extend].include?(action)
      raise invalid("action: must be commit, cancel, success, failed or extend")
    end
    raise invalid("action: actual_cost and overage belong to commit") if action != "commit" && (actual_cost || overage)
    raise invalid("ttl: is missing") if action == "extend" && ttl.nil?

    how = {}
    how[:actualCost] = actual_cost.map(&:to_s) if actual_cost
    how[:overage] = "OVERAGE_#{overage.to_s.upcase}" if overage
    how[:ttl] = seconds(ttl) if action == "extend"
    request = {action => how}.merge(hold.empty? ? {decisionId: decided} : {holdId: hold})
    request[:idempotencyId] = SecureRandom.uuid if action == "extend"
    decision_of(call("Settle", request, true, timeout))
  end

  # Returns the state of keys and changes nothing.
  def get(entries, stale_ok: false, timeout: nil, namespace: nil)
    request = {namespace: namespace || @namespace, entries: entries_of(entries), staleOk: stale_ok}
    call("Get", request, true, timeout).fetch("limits", []).map { |limit| limit_of(limit) }
  end

  # Resets or unblocks a key by one policy, or by one of its limits. action: reset or unblock. It is kept in the audit log, and needs
  # a token that may adjust.
  def adjust(policy, key, action, limit: "", note: "", timeout: nil, namespace: nil)
    raise invalid("action: must be reset or unblock") unless %w[reset unblock].include?(action.to_s)

    request = entries_of({policy: policy, key: key})[0].merge(
      namespace: namespace || @namespace, limit: limit, note: note, action => {}, idempotencyId: SecureRandom.uuid
    )
    call("Adjust", request, true, timeout).fetch("limits", []).map { |l| limit_of(l) }
  end

  # Reports whether a node can serve. It never raises.
  def ready?(timeout: nil)
    within = (timeout || @timeout).fdiv(@nodes.length)
    @nodes.any? do |node|
      node.exchange("GET", "/readyz", {}, "", within)[0] == 200
    rescue Error
      false
    end
  end

  class << self
    # Makes a key of text that comes from outside, as a value or as parts by name. Different values give different keys. "%", "=",
    # "|", braces and controls are written in percent: a brace would let a client choose the shard. So is "/" in parts: what
    # stands before it is the key of a parent, which only a text may name. The end of a key over 512 bytes becomes its SHA-256.
    # A text has the same key in the middleware for Go. nil: the value, or one of the parts, is missing, empty or not UTF-8.
    def safe_key(value)
      return (text = text_of(value)) && shortened(escaped(text)) unless value.is_a?(Hash)

      parts = value.map { |name, part| [name.to_s, text_of(part)] }
      return nil if parts.empty? || parts.any? { |_, text| text.nil? }

      shortened(parts.map { |part| part.map { |text| escaped(text).gsub("/", "%2F") }.join("=") }.join("|"))
    end

    # Returns a key function for the address of the client, as in "ip:192.0.2.7" and "ip:2001:db8:1:2::": a client has a whole /64 of
    # IPv6. It takes the environment of Rack. nil: there is no address that can be believed.
    #
    #   Stint.client_ip                                  the peer of the connection; a forwarded address is never read
    #   Stint.client_ip(trusted_proxies: ["10.0.0.5"])   if the peer is one of these: X-Forwarded-For from the right, without them
    #   Stint.client_ip(header: "CF-Connecting-IP")      a header that the platform overwrites
    def client_ip(header: nil, trusted_proxies: [])
      raise ArgumentError, "stint: header and trusted_proxies exclude each other" if header && trusted_proxies != []
      raise ArgumentError, "stint: trusted_proxies must be a list" unless trusted_proxies.is_a?(Array)
      if header && %w[x-forwarded-for forwarded].include?(header.downcase)
        raise ArgumentError, "stint: a client can write #{header}: give trusted_proxies instead"
      end

      trusted = trusted_proxies.map { |proxy| IPAddr.new(proxy) }
      name = header && "HTTP_#{header.upcase.tr("-", "_")}"
      lambda do |env|
        address = name ? Address.of(env[name]) : Address.forwarded(env, trusted)
        address && Address.key(address)
      end
    end

    # A number of seconds that a call can take.
    def span?(value) = value.is_a?(Numeric) && value.real? && value.to_f.finite? && value.positive?

    private

    def text_of(value)
      return nil unless value.is_a?(String) && !value.empty?

      text = value.encoding == Encoding::BINARY ? value.dup.force_encoding(Encoding::UTF_8) : value.encode(Encoding::UTF_8)
      text.valid_encoding? ? text : nil
    rescue EncodingError
      nil
    end

    def escaped(text)
      text.gsub(/[%=|{}\u0000-\u001f\u007f-\u009f]/) { |c| c.bytes.map { |b| format("%%%02X", b) }.join }
    end

    KEY_BYTES_MOST = 512
    private_constant :KEY_BYTES_MOST

    # Keeps the beginning of a long key, for people to read. No other key ends like that: behind the last bar of parts is "=".
    def shortened(text)
      return text if text.bytesize <= KEY_BYTES_MOST

      cut = KEY_BYTES_MOST - 65
      cut -= 1 while text.getbyte(cut) & 0xC0 == 0x80 # not within a character
      "#{text.byteslice(0, cut)}|#{Digest::SHA256.hexdigest(text.byteslice(cut..))}"
    end
  end

  private

  def invalid(detail) = Error.new("invalid_argument", detail)

  def check_of(entries, mode, id, explain, namespace)
    raise invalid("idempotency_id: must be a text; nil sends none") if id == ""

    id = SecureRandom.uuid if id.equal?(DRAWN)
    request = {namespace: namespace || @namespace, entries: entries_of(entries), idempotencyId: id || "", explain: explain}
    request[:mode] = "MODE_#{mode.to_s.upcase}" if mode
    request
  end

  # Sends a request until it is answered, its time is over, or a retry would be unsafe or useless. counts_once: sending it twice
  # counts it once.
  def call(method, request, counts_once, timeout)
    timeout = @timeout if timeout.nil?
    raise invalid("timeout: must be a number of seconds above 0") unless Stint.span?(timeout)

    body = json_of(request)
    ends = Stint.now + timeout
    maybe_applied = false # by an earlier attempt, whatever a later one says
    (0..).each do |attempt|
      at = @next
      left = ends - Stint.now
      within = [0.001, [left, [ATTEMPT_LEAST, left / @nodes.length].max].min].max
      begin
        return @nodes[at].ask("/stint.v1.LimitService/#{method}", body, headers(within), within)
      rescue Error => e
        failure = e
      end
      elsewhere = failure.maybe_applied? || failure.code == "unavailable" && !failure.no_room?
      @next = (at + 1) % @nodes.length if elsewhere && @next == at
      again = elsewhere && (counts_once || !failure.maybe_applied?)
      if maybe_applied && !failure.maybe_applied?
        said = failure.message
        failure = Error.new("aborted", "an earlier attempt may have been counted; the last one: #{said}", maybe_applied: true)
      end
      maybe_applied = failure.maybe_applied?
      # Another address is asked at once, the same one after a pause.
      pause = attempt + 1 < @nodes.length ? 0 : [PAUSE_LEAST * 2**[attempt, 8].min, PAUSE_MOST].min
      raise failure if !again || Stint.now + pause + REST_LEAST > ends

      sleep(pause)
      raise failure if Stint.now + REST_LEAST > ends # the pause was longer than it should have been
    end
  end

  def json_of(request)
    JSON.generate(request)
  rescue JSON::GeneratorError, EncodingError => e
    raise invalid("the request is no JSON: #{e.message}")
  end

  def headers(within)
    headers = {"Content-Type" => "application/json", "Connect-Timeout-Ms" => [1, (within * 1000).ceil].max.to_s}
    headers["Authorization"] = "Bearer #{@token}" unless @token.empty?
    headers
  end

  # Checks entries. One without a key is refused here: the empty text of a template is a key that all callers share.
  def entries_of(entries)
    listed = entries.is_a?(Hash) ? [entries] : entries.to_a
    raise invalid("entries: there must be one at least") if listed.empty?

    listed.each_with_index.map do |given, i|
      entry = given.transform_keys(&:to_sym)
      unless entry[:key].is_a?(String) && !entry[:key].empty?
        raise invalid("entries[#{i}].key: is missing or empty: all callers would share it")
      end
      raise invalid("entries[#{i}].policy: is missing") if entry[:policy].to_s.empty? && !entry[:limits]

      message = entry.slice(:policy, :key, :tier, :limits)
      cost = entry[:cost]
      raise invalid("entries[#{i}].cost: must be a whole number from 0") unless cost.nil? || cost.is_a?(Integer) && cost >= 0

      cost ? message.merge(cost: cost.to_s) : message
    end
  end

  def decision_of(answer)
    d = answer["decision"]
    raise Error.new("aborted", "an answer without a decision", maybe_applied: true) unless d.is_a?(Hash)

    Decision.new(
      allowed: d["allowed"] == true, decision_id: d.fetch("decisionId", ""), limits: d.fetch("limits", []).map { |l| limit_of(l) },
      denied_by: d.fetch("deniedBy", []), reason: d.fetch("reason", ""), retry_after: span_of(d["retryAfter"]),
      decided_at: time_of(d["decidedAt"]), headers: d.fetch("headers", {}), hold_id: d.fetch("holdId", ""),
      hold_expires_at: time_of(d["holdExpiresAt"]), replayed: d["replayed"] == true, shadow_denied: d["shadowDenied"] == true,
      explanation: d.fetch("explanation", ""), challenge: d["outcome"] == "OUTCOME_CHALLENGE",
      leased: d["leased"] == true
    ).freeze
  end

  def limit_of(limit)
    LimitStatus.new(
      policy: limit.fetch("policy", ""), limit: limit.fetch("limit", ""), key: limit.fetch("key", ""),
      quota: Integer(limit.fetch("quota", 0)), used: Integer(limit.fetch("used", 0)), held: Integer(limit.fetch("held", 0)),
      remaining: Integer(limit.fetch("remaining", 0)), granted: Integer(limit.fetch("granted", 0)),
      window_start: time_of(limit["windowStart"]), reset_at: time_of(limit["resetAt"]), retry_after: span_of(limit["retryAfter"]),
      allowed: limit["allowed"] == true, shadow: limit["shadow"] == true, unlimited: limit["unlimited"] == true,
      lockout_level: limit.fetch("lockoutLevel", 0), blocked_until: time_of(limit["blockedUntil"]), soft: limit["soft"] == true
    ).freeze
  end

  def time_of(text) = text && Time.iso8601(text)

  def span_of(text) = text && Float(text.delete_suffix("s"))

  def seconds(span)
    raise invalid("ttl: must be more than 0 seconds") unless Stint.span?(span)

    format("%.6fs", span)
  end

  # Seconds of a clock that never jumps.
  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # An address of a client, as a key has it.
  module Address
    NAT64 = IPAddr.new("64:ff9b::/96") # where all clients of IPv4 have one /64
    TEREDO = IPAddr.new("2001::/32")

    module_function

    # The client's address. A proxy that sends no header tells nothing: all its clients would share its address. If all addresses
    # are trusted it is the first one: nobody else has written the list.
    def forwarded(env, trusted)
      address = of(env["REMOTE_ADDR"])
      env.fetch("HTTP_X_FORWARDED_FOR", "").split(",", -1).then { |hops| hops.empty? ? [""] : hops }.reverse_each do |hop|
        break if address.nil? || trusted.none? { |network| network.family == address.family && network.include?(address) }

        address = of(hop)
      end
      address
    end

    # Reads an address, with a zone, a port or brackets or without. IPv4 within IPv6 becomes IPv4. nil: it is none.
    def of(text)
      text = text.to_s.strip
      port = /\A(?:\[([^\]]*)\]|(\d+\.\d+\.\d+\.\d+))(?::\d{1,5})?\z/.match(text)
      text = (port[1] || port[2]) if port
      text = text.sub(/%[\w.-]+\z/, "")
      return nil if text.include?("/")

      address = IPAddr.new(text)
      address.ipv4_mapped? ? address.native : address
    rescue IPAddr::Error
      nil
    end

    def key(address)
      return "ip:#{address}" if address.ipv4?

      bits = address.to_i
      return "ip:#{v4(bits)}" if NAT64.include?(address)
      return "ip:#{v4(~bits)}" if TEREDO.include?(address)

      "ip:#{IPAddr.new(bits >> 64 << 64, Socket::AF_INET6)}"
    end

    def v4(bits) = IPAddr.new(bits & 0xFFFFFFFF, Socket::AF_INET)
  end
  private_constant :Address

  # One address and its idle connections, which the lock guards. It speaks HTTP/1.1 itself: Net::HTTP does not say whether a
  # request was sent, and bounds each read instead of the whole answer.
  class Node
    IDLE_MOST = 16 # connections kept

    def initialize(address, token, tls)
      url = parsed(address)
      host = url.hostname
      raise ArgumentError, "stint: the address of #{host} has a name or password: use a token" if url.userinfo
      if token && url.scheme != "https" && !loopback?(host)
        raise ArgumentError, "stint: the token is not sent in the clear to #{host}: use https://, or an address of this machine"
      end

      @host = host
      @port = url.port
      @authority = url.port == url.default_port ? url.host : "#{url.host}:#{url.port}"
      @address = "#{url.scheme}://#{@authority}"
      @path = url.path.sub(%r{/+\z}, "")
      @tls = context(tls) if url.scheme == "https"
      @idle = []
      @owner = Process.pid # of the idle connections: a fork must not read its parent's answers
      @lock = Mutex.new
    end

    def close
      idle = @lock.synchronize { taken = @idle; @idle = []; taken }
      idle.each(&:close)
    end

    # Sends a request of the API and returns its answer.
    def ask(path, body, headers, within)
      status, text = exchange("POST", path, headers, body, within)
      answer = parse(text)
      raise refused(status, text, answer) if status != 200
      return answer if answer.is_a?(Hash)

      raise Error.new("aborted", "#{@address} sent an answer that is no JSON", maybe_applied: true)
    end

    # Sends a request and returns status and body of the answer.
    def exchange(method, path, headers, body, within)
      ends = Stint.now + within
      stream = connected(ends)
      lines = headers.map { |name, value| "#{name}: #{value}\r\n" }.join
      head = "#{method} #{@path}#{path} HTTP/1.1\r\nHost: #{@authority}\r\nContent-Length: #{body.bytesize}\r\n#{lines}\r\n"
      begin
        write(stream, head.b + body.b, ends)
        status, text, whole = Answer.new(stream, ends).read
      rescue Late, IOError, SystemCallError, OpenSSL::SSL::SSLError => e
        raise Error.new("aborted", "#{@address} gave no answer: #{e.message}", maybe_applied: true)
      ensure # also when Timeout and others interrupt: nobody must read the rest of an answer
        whole ? keep(stream) : stream.close
      end
      [status, text]
    end

    # A time is over.
    class Late < StandardError; end

    # Waits until a connection can be read or written.
    def self.wait(stream, how, ends)
      left = ends - Stint.now
      ready = left.positive? && (how == :wait_writable ? stream.to_io.wait_writable(left) : stream.to_io.wait_readable(left))
      raise Late, "its time is over" unless ready
    end

    private

    def parsed(address)
      url = URI.parse(address)
      unless url.is_a?(URI::HTTP) && !url.host.to_s.empty? && url.query.nil? && url.fragment.nil? && !address.match?(/[^\x21-\x7e]/)
        raise URI::Error
      end

      url
    rescue URI::Error
      shown = address.is_a?(String) && address.include?("@") ? "the address" : address.inspect
      raise ArgumentError, "stint: #{shown} is no base URL, as http://127.0.0.1:7400 is"
    end

    def context(tls)
      context = OpenSSL::SSL::SSLContext.new
      context.set_params({min_version: OpenSSL::SSL::TLS1_2_VERSION, **tls})
      context.verify_hostname = false # post_connection_check does it, for addresses too
      context
    end

    def loopback?(host) = host == "localhost" || Address.of(host)&.loopback? || false

    # Returns a connection that no one else uses.
    def connected(ends)
      while (stream = taken)
        return stream unless stream.to_io.wait_readable(0)

        stream.close # the other end has closed it
      end
      connect(ends)
    rescue Late, SocketError, IOError, SystemCallError, OpenSSL::SSL::SSLError => e
      # No request was sent: that includes a certificate that is not accepted.
      raise Error.new("unavailable", "#{@address} cannot be reached: #{e.message}")
    end

    def taken
      @lock.synchronize do
        if @owner != Process.pid
          @owner = Process.pid
          @idle = []
        end
        @idle.pop
      end
    end

    def connect(ends)
      socket = dialed(ends)
      socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
      return socket unless @tls

      stream = OpenSSL::SSL::SSLSocket.new(socket, @tls)
      stream.sync_close = true
      stream.hostname = @host unless Address.of(@host)
      while (how = stream.connect_nonblock(exception: false)).is_a?(Symbol)
        Node.wait(stream, how, ends)
      end
      stream.post_connection_check(@host)
      stream
    rescue Exception
      (stream || socket)&.close
      raise
    end

    # Returns a connection to the first address of the host that takes one. Each has its share of the time, so that one that is silent
    # leaves some for the others.
    def dialed(ends)
      found = Addrinfo.getaddrinfo(@host, @port, nil, :STREAM)
      failed = nil
      found.each_with_index do |address, i|
        return address.connect(timeout: [0.001, (ends - Stint.now) / (found.length - i)].max)
      rescue SystemCallError => e
        failed = e
      end
      raise failed
    end

    def write(stream, data, ends)
      until data.empty?
        written = stream.write_nonblock(data, exception: false)
        written.is_a?(Symbol) ? Node.wait(stream, written, ends) : data = data.byteslice(written..)
      end
    end

    def keep(stream)
      kept = @lock.synchronize { @owner == Process.pid && @idle.length < IDLE_MOST && @idle.push(stream) }
      stream.close unless kept
    end

    def parse(text)
      JSON.parse(text.force_encoding(Encoding::UTF_8))
    rescue JSON::ParserError, EncodingError
      nil
    end

    # The error of an answer that is not 200.
    def refused(status, text, answer)
      details = answer.is_a?(Hash) && answer["code"].is_a?(String) && answer["details"].is_a?(Array) ? answer["details"] : []
      detail = details.find { |d| d.is_a?(Hash) && d["type"] == "stint.v1.Failure" && d["value"].is_a?(String) }
      return Error.new(answer["code"], answer["message"].to_s, maybe_applied: maybe_applied(detail["value"])) if detail

      Error.new("aborted", "an answer #{status} that is not stint's: #{text.byteslice(0, 200).scrub}", maybe_applied: true)
    end

    # Field 3 of a stint.v1.Failure in protobuf, base64. What cannot be read may have been applied.
    def maybe_applied(value)
      bytes = value.delete_suffix("=").delete_suffix("=").then { |v| "#{v}#{"=" * (-v.length % 4)}".unpack1("m0") }.bytes
      until bytes.empty?
        tag = varint(bytes)
        number = varint(bytes)
        return number != 0 if tag == 3 << 3
        return true if tag & 7 != 2 || bytes.shift(number).length != number # no field of a Failure
      end
      false
    rescue ArgumentError, RangeError, TypeError
      true
    end

    def varint(bytes)
      value = shift = 0
      loop do
        byte = bytes.shift or raise ArgumentError, "the data ends within a number"
        value |= (byte & 127) << shift
        return value if byte < 128

        shift += 7
      end
    end
  end
  private_constant :Node

  # An answer of HTTP/1.1 that is being read.
  class Answer
    def initialize(stream, ends)
      @stream = stream
      @ends = ends
      @buffer = "".b
    end

    # Returns status, body, and whether the connection can be kept.
    def read
      head = line = nil
      loop do # an answer 1xx is not the last one
        head = up_to("\r\n\r\n")
        line = %r{\AHTTP/1\.([01]) (\d{3})\b}.match(head) or raise IOError, "no HTTP/1.1"
        break if line[2] >= "200"
      end
      keep = line[1] == "1" && !head.match?(/^connection:[^\r\n]*\bclose\b/i)
      body = head.match?(/^transfer-encoding:[^\r\n]*\bchunked\b/i) ? chunks : bytes(length(head))
      [line[2].to_i, body, keep && @buffer.empty?]
    end

    private

    def length(head)
      found = /^content-length:[ \t]*(\d{1,15})[ \t]*\r?$/i.match(head) or raise IOError, "an answer without a length"
      found[1].to_i
    end

    def chunks
      body = "".b
      loop do
        line = /\A(\h{1,8})[ \t]*(?:;|\z)/.match(up_to("\r\n")) or raise IOError, "no chunk"
        length = line[1].hex
        break if length.zero?

        body << bytes(length)
        bytes(2)
      end
      nil until up_to("\r\n").empty? # trailers
      body
    end

    # Takes what stands before an end out of the buffer.
    def up_to(mark)
      fill until (at = @buffer.index(mark))
      taken = @buffer.slice!(0, at + mark.length)
      taken.delete_suffix(mark)
    end

    def bytes(length)
      fill while @buffer.length < length
      @buffer.slice!(0, length)
    end

    # Reads first and waits then: what TLS has decrypted is not seen by a wait.
    def fill
      loop do
        read = @stream.read_nonblock(65_536, exception: false)
        raise EOFError, "the connection ended" if read.nil?
        return @buffer << read if read.is_a?(String)

        Node.wait(@stream, read, @ends)
      end
    end
  end
  private_constant :Answer

  # A Rack middleware that counts a request before the application sees it. env["stint"] is the decision.
  #
  #   use Stint::Limit, limits, [{policy: "per-ip", key: Stint.client_ip}], fail: :open
  #
  # An entry's key is a function of the environment, its cost a number or a function. README.md explains the options.
  class Limit
    PROBLEMS = "https://iana.org/assignments/http-problem-types#"
    TITLES = {400 => "Bad request", 403 => "Forbidden", 429 => "Too many requests", 503 => "Service unavailable"}.freeze
    UNDECIDED = "The request was not carried out, since its limits could not be checked. Try again."
    EXPOSE = "access-control-expose-headers"
    private_constant :PROBLEMS, :TITLES, :UNDECIDED, :EXPOSE

    def initialize(app, limits, entries, fail:, on_missing: :deny, on_error: nil, timeout: nil, idempotency_id: DRAWN)
      raise ArgumentError, "stint: entries must be a list with one at least" unless entries.is_a?(Array) && !entries.empty?

      entries.each do |entry|
        raise ArgumentError, "stint: an entry has no policy" if entry[:policy].to_s.empty?
        unless entry[:key].respond_to?(:call)
          raise ArgumentError, "stint: the key of policy #{entry[:policy]} must be a function of the environment, as Stint.client_ip is"
        end
      end
      unless %i[closed open].include?(fail)
        raise ArgumentError, "stint: say fail: :closed (503) or fail: :open for the time when the cluster gives no decision"
      end
      raise ArgumentError, "stint: on_missing must be :deny, :skip or :shared" unless %i[deny skip shared].include?(on_missing)
      unless idempotency_id.equal?(DRAWN) || idempotency_id.nil?
        raise ArgumentError, "stint: idempotency_id can only be nil: one id for all requests counts once"
      end

      @app = app
      @limits = limits
      @entries = entries
      @fail = fail
      @on_missing = on_missing
      @on_error = on_error
      @options = {timeout: timeout, idempotency_id: idempotency_id}
    end

    # Raises what no fail mode may hide: an unknown policy, a token that does not allow it, a key function that fails.
    def call(env)
      asked = @entries.filter_map do |entry|
        key = Stint.safe_key(entry[:key].call(env)) || (@on_missing == :shared ? "shared" : nil)
        if key.nil? && @on_missing == :deny
          return refusal(400, "The request does not say whom it counts for (#{entry[:policy]}).")
        end

        cost = entry[:cost].respond_to?(:call) ? entry[:cost].call(env) : entry[:cost]
        key && {policy: entry[:policy], key: key, cost: cost}
      end
      return @app.call(env) if asked.empty?

      begin
        decision = @limits.check(asked, **@options)
      rescue Error => e
        return undecided(env, e)
      end
      decided(env, decision)
    end

    private

    def undecided(env, error)
      return refusal(403, "The sender is not known.") if error.unknown_key?
      raise error unless error.no_decision? || error.no_room?

      @on_error&.call(error)
      return passed(env, {"stint-failed" => "open"}) if @fail == :open && !error.no_room?

      refusal(503, UNDECIDED, "temporary-reduced-capacity", {"retry-after" => "1", EXPOSE => "Retry-After"})
    end

    def decided(env, decision)
      headers = decision.headers.transform_keys(&:downcase)
      headers[EXPOSE] = decision.headers.keys.join(", ") unless headers.empty?
      if decision.allowed?
        env["stint"] = decision
        return passed(env, headers)
      end
      refusal(decision.challenge? ? 403 : 429, decision.reason, "quota-exceeded", headers, decision)
    end

    # The application's answer, with our headers in place of those of the same name; lists of exposed names are joined.
    def passed(env, ours)
      status, headers, body = @app.call(env)
      merged = ours.dup
      headers.each do |name, value|
        lower = name.downcase
        if lower == EXPOSE && ours[EXPOSE]
          merged[EXPOSE] = [*value, ours[EXPOSE]].join(", ")
        elsif !ours.key?(lower)
          merged[name] = value
        end
      end
      [status, merged, body]
    end

    # An answer of RFC 9457. No cache may keep it (RFC 6585).
    def refusal(status, detail, problem = nil, headers = {}, decision = nil)
      body = {type: problem ? PROBLEMS + problem : "about:blank", title: TITLES[status], status: status}
      body.merge!(type: "urn:stint:problem:challenge", title: "Challenge required", code: "challenge") if decision&.challenge?
      body[:detail] = detail unless detail.to_s.empty?
      body["violated-policies"] = decision.denied_by if decision
      text = JSON.generate(body)
      ours = {"cache-control" => "no-store", "content-type" => "application/problem+json", "content-length" => text.bytesize.to_s}
      [status, headers.merge(ours), [text]]
    end
  end
end

# frozen_string_literal: true

require_relative "harness"

# The client beside a real node.
class StintTest < Minitest::Test
  include Harness

  ALLOWED = {"status" => 200, "body" => {"decision" => {"allowed" => true}}}.freeze

  def test_a_call_has_a_bound_of_its_own
    [[{}, 5000], [{timeout: 0.7}, 700]].each do |options, most|
      script = servers([UNDECIDED])
      fails { later(Stint.new(script.urls, **options)).check({policy: "five", key: "bound"}) }
      assert_includes(1..most, script.requests[0][0]["connect-timeout-ms"].to_i)
    end
  end

  def test_a_check_counts_and_a_denial_is_a_decision_with_its_wait
    (1..5).each do |i|
      d = limits.check({policy: "five", key: "rb counts"})
      assert_equal([true, i, 5 - i], [d.allowed?, d.limits[0].used, d.limits[0].remaining])
    end
    d = limits.check({"policy" => "five", "key" => "rb counts"})
    assert_equal([false, ["five/ever"], nil, nil], [d.allowed?, d.denied_by, d.retry_after, d.retry_after_seconds])
    d = Array.new(4) { limits.check({policy: "window", key: "rb counts"}) }.last
    refute_predicate(d, :allowed?)
    assert_includes(1..86_400, d.retry_after_seconds)
    assert_equal(d.retry_after_seconds.to_s, d.headers["Retry-After"])
  end

  def test_an_answer_that_got_lost_is_asked_for_again_and_counts_once
    script = servers(%w[lost pass], nodes: 2, target: node.url)
    d = client(script.urls).check({policy: "many", key: "rb lost"})
    assert_equal([true, true], [d.allowed?, d.replayed])
    assert_match(/\A\h{8}-\h{4}-4\h{3}-[89ab]\h{3}-\h{12}\z/, script.requests[0][1]["idempotencyId"])
    assert_equal(script.requests[0][1], script.requests[1][1])
    assert_equal(1, used("many", "rb lost"))
  end

  def test_a_node_that_never_answers_costs_its_share_of_the_time
    silent = servers(["hang"], target: node.url)
    d = client(silent.urls + [node.url]).check({policy: "many", key: "rb hangs"}, timeout: 8)
    assert_equal([true, true], [d.allowed?, d.replayed])
    assert_equal(1, used("many", "rb hangs"))
  end

  def test_the_time_of_a_call_ends_and_what_was_sent_may_have_been_counted
    silent = servers(["hang"], target: node.url)
    e = fails { client(silent.urls).check({policy: "many", key: "rb late"}, timeout: 0.3) }
    assert_equal(["aborted", true, true], [e.code, e.maybe_applied?, e.no_decision?])
  end

  def test_all_addresses_of_a_host_have_the_time_of_one_call
    full = later(TCPServer.new("127.0.0.1", 0))
    full.listen(0)
    4.times { later(Socket.new(:INET, :STREAM)).connect_nonblock(full.local_address, exception: false) } # who comes now gets no answer
    Addrinfo.stub(:getaddrinfo, ->(*) { Array.new(1000, full.local_address) }) do
      e = fails { client(["http://localhost:7400"]).check({policy: "many", key: "k"}, timeout: 1) }
      assert_equal(["unavailable", false], [e.code, e.maybe_applied?])
    end
  end

  def test_without_an_id_what_may_have_been_counted_is_not_repeated
    script = servers(["lost"], nodes: 2, target: node.url)
    e = fails { client(script.urls).check({policy: "many", key: "rb no id"}, idempotency_id: nil) }
    assert_equal(["aborted", true, true], [e.code, e.maybe_applied?, e.no_decision?])
    assert_equal("", script.requests[0][1]["idempotencyId"])
    assert_equal(1, used("many", "rb no id"))
  end

  def test_an_address_at_which_nobody_listens_is_certainly_not_counted
    nobody = refused
    assert_predicate(client([nobody, node.url]).check({policy: "many", key: "rb refused"}, idempotency_id: nil), :allowed?)
    e = fails { client([nobody]).check({policy: "many", key: "rb refused"}, timeout: 0.3) }
    assert_equal(["unavailable", false, true], [e.code, e.maybe_applied?, e.no_decision?])
    assert_equal(1, used("many", "rb refused"))
  end

  def test_a_wrong_request_is_refused_once_and_names_the_field
    e = fails { limits.check({policy: "nope", key: "k"}) }
    assert_equal(["not_found", false, false], [e.code, e.no_decision?, e.unknown_key?])
    assert_includes(e.message, "entries[0].policy")
    assert_predicate(fails { limits.check({policy: "known", key: "k"}) }, :unknown_key?)
    script = servers([ALLOWED])
    asking = client(script.urls)
    ["", nil, 7].each { |key| assert_includes(fails { asking.check({policy: "five", key: key}) }.detail, "entries[0].key") }
    [-1, 1.5, true].each do |cost|
      assert_includes(fails { asking.check([{policy: "five", key: "k", cost: cost}]) }.detail, "entries[0].cost")
    end
    [0, -1, Float::NAN, Float::INFINITY, "5"].each do |timeout|
      assert_includes(fails { asking.check({policy: "five", key: "k"}, timeout: timeout) }.detail, "timeout")
      assert_raises(ArgumentError) { Stint.new([node.url], timeout: timeout) }
    end
    fails { asking.check([]) }
    assert_equal("invalid_argument", fails { asking.check({policy: "five", key: "\xff"}) }.code)
    fails { asking.check({policy: "five", key: "k"}, idempotency_id: "") }
    assert_empty(script.requests)
  end

  def test_a_hold_is_settled_once_and_a_decision_given_back_once
    hold = limits.reserve({policy: "login", key: "rb ann"}, ttl: 30)
    assert(hold.allowed? && hold.hold_id != "" && hold.hold_expires_at > hold.decided_at)
    assert_operator(limits.settle(hold, :extend, ttl: 60).hold_expires_at, :>, hold.hold_expires_at)
    limits.settle(hold, :success)
    limits.settle(hold.hold_id, :success)
    assert_equal("failed_precondition", fails { limits.settle(hold, :failed) }.code)
    3.times { limits.settle(limits.reserve({policy: "login", key: "rb bob"}), :failed) }
    blocked = limits.reserve({policy: "login", key: "rb bob"})
    assert_equal([false, "Too many attempts."], [blocked.allowed?, blocked.reason])
    assert_includes(fails { limits.settle(blocked, :failed) }.detail, "nothing to settle")
    limits.adjust("login", "rb bob", :unblock)
    d = limits.check({policy: "many", key: "rb refund", cost: 10})
    limits.settle(d, :commit, actual_cost: [4])
    assert_equal(4, used("many", "rb refund"))
    fails { limits.settle(d, :cancel, actual_cost: [1]) }
  end

  def test_limits_that_a_request_brings_along
    entry = {policy: "inline", key: "rb", limits: [{name: "ever", quota: "2", lifetime: {}}]}
    assert_equal([true, true, false], Array.new(3) { limits.check(entry).allowed? })
  end

  def test_64_threads_get_exactly_5_of_5
    shared = limits # one client of one node, made before the threads
    threads = Array.new(64) { Thread.new { shared.check({policy: "five", key: "rb crowd"}).allowed? } }
    assert_equal(5, threads.map(&:value).count(true))
  end

  def test_a_connection_is_kept_and_one_that_the_node_has_closed_is_not_used_again
    script = servers(%w[pass last pass], target: node.url)
    asking = client(script.urls)
    2.times { asking.check({policy: "many", key: "rb stale"}, idempotency_id: nil) }
    assert_equal(1, script.connections)
    idle = asking.instance_variable_get(:@nodes)[0].instance_variable_get(:@idle)
    idle.each { |stream| stream.to_io.wait_readable } # its end has come
    asking.check({policy: "many", key: "rb stale"}, idempotency_id: nil)
    assert_equal([2, 3], [script.connections, used("many", "rb stale")])
  end

  def test_a_fork_does_not_read_the_answers_of_its_parent
    script = servers(["pass"], target: node.url)
    asking = client(script.urls)
    asking.check({policy: "many", key: "rb fork"})
    child = fork do
      asking.check({policy: "many", key: "rb fork"})
      exit!(true)
    ensure
      exit!(false)
    end
    assert_predicate(Process.wait2(child)[1], :success?)
    asking.check({policy: "many", key: "rb fork"})
    assert_equal([2, 3], [script.connections, used("many", "rb fork")])
  end

  def test_a_call_that_is_interrupted_leaves_no_answer_behind
    silent = servers(["hang"], target: node.url)
    asking = client(silent.urls)
    thread = Thread.new { asking.check({policy: "many", key: "rb interrupted"}) }
    thread.report_on_exception = false
    Thread.pass until silent.requests.length == 1
    thread.raise(Interrupt)
    assert_raises(Interrupt) { thread.value }
    assert_empty(asking.instance_variable_get(:@nodes)[0].instance_variable_get(:@idle))
  end

  def test_an_answer_in_chunks_behind_one_that_is_not_the_last
    script = servers([ALLOWED.merge("chunked" => true)])
    asking = client(script.urls)
    2.times { assert_predicate(asking.check({policy: "five", key: "k"}), :allowed?) }
    assert_equal(1, script.connections)
  end

  def test_an_answer_that_is_none_may_have_been_counted_and_is_never_allowed
    ["", "[]", "true", '{"decision":7}', '{"decision":{"allowed":true}', "\xff"].each do |body|
      e = fails { client(servers([{"status" => 200, "body" => body}]).urls).check({policy: "five", key: "k"}, idempotency_id: nil) }
      assert_equal(["aborted", true], [e.code, e.maybe_applied?], body)
    end
    # A detail that ends early, or is of another message.
    {"" => false, "GAA=" => false, "GAE=" => true, "GA==" => true, "GP8=" => true, "CA==" => true, "CgVh" => true, "IAE=" => true,
     "!" => true}.each do |value, maybe|
      body = {"code" => "internal", "details" => [{"type" => "stint.v1.Failure", "value" => value}]}
      e = fails { client(servers([{"status" => 500, "body" => body}]).urls).check({policy: "five", key: "k"}, idempotency_id: nil) }
      assert_equal(maybe, e.maybe_applied?, value)
    end
  end

  def test_a_token_goes_to_https_and_to_this_machine_only
    %w[http://192.0.2.1:7400 http://node.example.com http://localhost.example.com http://[2001:db8::1]:7400 http://0.0.0.0].each do |a|
      assert_match(/not sent in the clear/, assert_raises(ArgumentError) { Stint.new([node.url, a], token: "stint_x_y") }.message)
      Stint.new([a])
    end
    %w[https://node.example.com http://localhost:7400 http://127.1.2.3 http://[::1]:7400 http://[::ffff:127.0.0.1]:7400].each do |a|
      Stint.new([a], token: "stint_x_y")
    end
    script = servers([ALLOWED])
    client(script.urls, token: "stint_x_y").check({policy: "many", key: "k"})
    client(script.urls).check({policy: "many", key: "k"})
    assert_equal(["Bearer stint_x_y", nil], script.requests.map { |headers, _| headers["authorization"] })
    assert_raises(ArgumentError) { Stint.new([node.url], token: "stint_x\r\nX: y") }
  end

  def test_addresses_that_are_none_are_refused
    [[], node.url, ["localhost:7400"], ["127.0.0.1:7400"], ["ftp://x"], ["http://"], ["http://a/?b"], ["http://a:b"], [nil],
     ["http://a\r\nX: y"], ["http://u:secret@127.0.0.1"], ["http://u:secret@127.0.0.1:b"]].each do |addresses|
      refute_includes(assert_raises(ArgumentError) { Stint.new(addresses) }.message, "secret")
    end
  end

  def test_tls_and_tokens_of_a_real_node
    Dir.mktmpdir do |dir|
      certificate, key, file = %w[cert.pem key.pem token].map { |name| File.join(dir, name) }
      system("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out",
             certificate, "-days", "2", "-subj", "/CN=stint", "-addext", "subjectAltName=IP:127.0.0.1", err: File::NULL, exception: true)
      token = IO.popen([ENV.fetch("STINT_BINARY"), "token", "generate"], &:read).strip
      File.write(file, token)
      File.chmod(0o600, key, file)
      secure = later(Harness::Node.new("--api-cert", certificate, "--api-key", key, "--admin-token-file", file))
      speak_tls(secure.url, token, {ca_file: certificate})
    end
  end

  def speak_tls(url, token, tls)
    entry = {policy: "five", key: "tls"}
    secure = client([url], token: token, tls: tls)
    assert_equal([true, true], Array.new(2) { secure.check(entry).allowed? })
    assert_predicate(secure, :ready?)
    ["", "stint_x_y"].each do |wrong|
      e = fails { client([url], token: wrong, tls: tls).check(entry) }
      assert_equal(["unauthenticated", false, false], [e.code, e.maybe_applied?, e.no_decision?])
    end
    [[url, {}], [url.sub("127.0.0.1", "localhost"), tls]].each do |address, trust| # another authority, another name
      e = fails { client([address], token: token, tls: trust).check(entry, timeout: 1) }
      assert_equal(["unavailable", false], [e.code, e.maybe_applied?])
    end
    e = fails { client([url.sub("https", "http")]).check(entry) }
    assert_equal(["failed_precondition", false], [e.code, e.maybe_applied?])
  end

  def test_ready
    assert_predicate(limits, :ready?)
    refute_predicate(client([refused]), :ready?)
  end

  def test_keys_of_text_from_outside
    {"user:42" => "user:42", "{a}%\n=|" => "%7Ba%7D%25%0A%3D%7C", "\u0085" => "%C2%85", "\u0085".b => "%C2%85",
     {"a" => "x|b=y", "b" => "z"} => "a=x%7Cb%3Dy|b=z", {route: "/x/{y}", user: "z"} => "route=%2Fx%2F%7By%7D|user=z",
     "vendor:acme/product:x" => "vendor:acme/product:x",
     "a" * 600 => "#{"a" * 447}|#{Digest::SHA256.hexdigest("a" * 153)}"}.each do |text, key|
      assert_equal(key, Stint.safe_key(text))
    end
    ["", nil, 5, {}, {"a" => ""}, {"a" => nil, "b" => "x"}, "\xff", "\xff".b].each { |missing| assert_nil(Stint.safe_key(missing)) }
    long = "ü" * 400
    assert_operator(Stint.safe_key(long).bytesize, :<=, 512)
    assert_predicate(Stint.safe_key(long), :valid_encoding?)
    refute_equal(Stint.safe_key(long), Stint.safe_key("#{long}x"))
  end

  def test_the_client_address
    ip = Stint.client_ip(trusted_proxies: ["10.0.0.0/8", "fd00::/8", "192.0.2.9"])
    [
      ["192.0.2.1", "1.1.1.1", "ip:192.0.2.1"],
      ["10.0.0.1", "9.9.9.9", "ip:9.9.9.9"],
      ["::ffff:10.0.0.1", "6.6.6.6, 9.9.9.9 , 10.0.0.2,192.0.2.9", "ip:9.9.9.9"],
      ["10.0.0.1", "9.9.9.9, junk", nil],
      ["10.0.0.1", "9.9.9.9, 8.8.8.8/8", nil],
      ["10.0.0.1", "", nil],
      ["10.0.0.1", nil, nil],
      ["10.0.0.1", "9.9.9.9,", nil],
      ["10.0.0.1", "junk, 9.9.9.9", "ip:9.9.9.9"],
      ["10.0.0.1", "10.0.0.7", "ip:10.0.0.7"],
      ["fd00::1", "[2001:db8:1:2:3:4:5:6]:443", "ip:2001:db8:1:2::"],
      ["10.0.0.1", "2001:db8::9%eth0", "ip:2001:db8::"],
      ["10.0.0.1", "64:ff9b::203.0.113.7", "ip:203.0.113.7"],
      ["10.0.0.1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "ip:192.0.2.45"],
      ["10.0.0.1", "64:ff9b:1::203.0.113.7", "ip:64:ff9b:1::"],
      ["10.0.0.1", "::ffff:9.9.9.9", "ip:9.9.9.9"],
      ["10.0.0.1", "::1", "ip:::"],
      ["10.0.0.1", "01.2.3.4", nil],
      [nil, "9.9.9.9", nil]
    ].each do |peer, forwarded, want|
      env = {"REMOTE_ADDR" => peer, "HTTP_X_FORWARDED_FOR" => forwarded}.compact
      want.nil? ? assert_nil(ip.call(env), env.to_s) : assert_equal(want, ip.call(env), env.to_s)
      assert_equal("ip:192.0.2.1", Stint.client_ip.call(env.merge("REMOTE_ADDR" => "192.0.2.1")))
    end
    platform = Stint.client_ip(header: "CF-Connecting-IP")
    assert_equal("ip:9.9.9.9", platform.call("HTTP_CF_CONNECTING_IP" => "9.9.9.9", "REMOTE_ADDR" => "10.0.0.1"))
    assert_nil(platform.call("REMOTE_ADDR" => "10.0.0.1"))
    [{header: "X-Forwarded-For"}, {trusted_proxies: ["10.0.0"]}, {trusted_proxies: "10.0.0.0/8"},
     {header: "a", trusted_proxies: ["::1"]}].each { |wrong| assert_raises(ArgumentError, IPAddr::Error) { Stint.client_ip(**wrong) } }
  end

  def test_the_code_of_the_pages_runs
    page = later(Harness::Node.new(policies: File.join(ROOT, "policy/dev.yaml")))
    blocks = [File.join(__dir__, "../README.md"), File.join(ROOT, "docs/errors.md")].flat_map do |name|
      File.read(name).scan(/^```rb\n(.*?)^```/m).flatten
    end
    assert_equal(5, blocks.length)
    blocks.each do |block|
      command = [RbConfig.ruby, "-w", "-I", File.expand_path("..", __dir__), "-e", block.gsub("127.0.0.1:7400", page.url[7..])]
      said = IO.popen(command, err: %i[child out], &:read)
      assert_equal([0, ""], [$?.exitstatus, said], block)
    end
  end
end

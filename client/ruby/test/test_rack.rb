# frozen_string_literal: true

require "rack"
require "rack/lint"
require "rack/mock"
require_relative "harness"

# The middleware beside a real node, in Rack's own checker.
class RackTest < Minitest::Test
  include Harness

  BY_USER = ->(env) { env["HTTP_X_USER"] }

  # Sends a request through the middleware.
  def ask(entries, headers = {}, limits: self.limits, fail: :closed, **options)
    application = lambda do |env|
      exposed = {"content-type" => "application/json", "ratelimit" => "of the application", "access-control-expose-headers" => "X-A"}
      [200, exposed, [JSON.generate(env["stint"] ? env["stint"].limits[0].used : "unasked")]]
    end
    middleware = Stint::Limit.new(application, limits, entries, fail: fail, **options)
    Rack::MockRequest.new(Rack::Lint.new(middleware)).get("/", {"REMOTE_ADDR" => "192.0.2.77"}.merge(headers))
  end

  def test_exactly_five_then_429
    entries = [{policy: "five", key: BY_USER}]
    (1..5).each do |i|
      answer = ask(entries, {"HTTP_X_USER" => "rb ann"})
      assert_equal([200, %("ever";r=#{5 - i}), i.to_s], [answer.status, answer["ratelimit"], answer.body])
      assert_equal("X-A, RateLimit, RateLimit-Policy", answer["access-control-expose-headers"])
    end
    answer = ask(entries, {"HTTP_X_USER" => "rb ann"})
    assert_equal([429, "no-store", "application/problem+json", nil],
                 [answer.status, answer["cache-control"], answer["content-type"], answer["retry-after"]])
    assert_equal({"type" => "https://iana.org/assignments/http-problem-types#quota-exceeded", "title" => "Too many requests",
                  "status" => 429, "violated-policies" => ["five/ever"]}, JSON.parse(answer.body))
  end

  def test_a_challenge_is_a_403_with_its_code
    entries = [{policy: "soft", key: BY_USER}]
    assert_equal(200, ask(entries, {"HTTP_X_USER" => "rb soft"}).status)
    answer = ask(entries, {"HTTP_X_USER" => "rb soft"})
    assert_equal(403, answer.status)
    assert_equal({"type" => "urn:stint:problem:challenge", "title" => "Challenge required", "status" => 403, "code" => "challenge",
                  "detail" => "Are you a robot?", "violated-policies" => ["soft/challenge"]}, JSON.parse(answer.body))
  end

  def test_a_forged_address_is_not_read_and_a_denial_has_its_wait
    answers = Array.new(4) { |i| ask([{policy: "window", key: Stint.client_ip}], {"HTTP_X_FORWARDED_FOR" => "198.51.100.#{i}"}) }
    assert_equal([200, 200, 200, 429], answers.map(&:status))
    assert_operator(answers[3]["retry-after"].to_i, :>=, 1)
  end

  def test_entries_are_all_or_nothing
    entries = [{policy: "window", key: BY_USER}, {policy: "many", key: ->(env) { {user: BY_USER.call(env)} }, cost: ->(_) { 7 }}]
    assert_equal([200, 200, 200, 429], Array.new(4) { ask(entries, {"HTTP_X_USER" => "rb {both}"}).status })
    assert_equal(21, used("many", "user=rb %7Bboth%7D"))
  end

  def test_without_a_key
    entries = [{policy: "many", key: BY_USER}]
    assert_equal(400, ask(entries, fail: :open).status)
    assert_equal('"unasked"', ask(entries, on_missing: :skip).body)
    2.times { assert_equal(200, ask(entries, on_missing: :shared).status) }
    assert_operator(used("many", "shared"), :>=, 2)
  end

  def test_no_decision_by_fail_mode_and_a_mistake_is_never_open
    errors = []
    nowhere = client(servers([UNDECIDED]).urls)
    entries = [{policy: "five", key: ->(_) { "rb k" }}]
    answer = ask(entries, limits: nowhere, on_error: errors.method(:<<))
    assert_equal([503, "1", "Retry-After"], [answer.status, answer["retry-after"], answer["access-control-expose-headers"]])
    answer = ask(entries, limits: nowhere, fail: :open, on_error: errors.method(:<<))
    assert_equal([200, "open", '"unasked"'], [answer.status, answer["stint-failed"], answer.body])
    assert_equal(%w[internal internal], errors.map(&:code))
    assert_equal(403, ask([{policy: "known", key: ->(_) { "invented" }}], fail: :open).status)
    %i[open closed].each { |mode| fails { ask([{policy: "nope", key: ->(_) { "k" }}], fail: mode) } } # our mistake, no denial
  end

  def test_a_key_without_room_never_passes
    answers = Array.new(2) { |i| ask([{policy: "few", key: ->(_) { "rb #{i}" }}], fail: :open) }
    assert_equal([[200, nil], [503, nil]], answers.map { |answer| [answer.status, answer["stint-failed"]] })
  end

  def test_options_that_would_be_a_trap_are_refused
    key = Stint.client_ip
    [[[], {fail: :open}, /entries/], [[{key: key}], {fail: :open}, /policy/], [[{policy: "a"}], {fail: :open}, /key/],
     [[{policy: "a", key: "k"}], {fail: :open}, /key/], [[{policy: "a", key: key}], {fail: "open"}, /fail/],
     [[{policy: "a", key: key}], {fail: :open, on_missing: :allow}, /on_missing/],
     [[{policy: "a", key: key}], {fail: :open, idempotency_id: "one"}, /idempotency_id/],
     [[{policy: "a", key: key}], {}, /fail/]].each do |entries, options, says|
      assert_match(says, assert_raises(ArgumentError) { Stint::Limit.new(nil, limits, entries, **options) }.message)
    end
  end
end

# frozen_string_literal: true

require "rack"
require "rack/attack"
require "rack/mock"
require_relative "../stint_rack_attack"
require_relative "harness"

# The store in the real Rack::Attack, beside a real node.
class RackAttackTest < Minitest::Test
  include Harness

  DAY = 86_400

  def teardown
    Rack::Attack.clear_configuration
    super
  end

  # Counts the requests of one user by a throttle, three a period.
  def ask(user)
    Rack::MockRequest.new(Rack::Attack.new(->(_) { [200, {}, []] })).get("/", "HTTP_X_USER" => user).status
  end

  # A period of a century has begun, and does not end while a test runs.
  def throttle(store, period: 36_500 * DAY)
    Rack::Attack.cache.store = store
    Rack::Attack.throttle("user", limit: 3, period: period) { |request| request.get_header("HTTP_X_USER") }
  end

  def test_three_pass
    throttle(Stint::RackAttackStore.new(limits, longest: 36_500 * DAY))
    assert_equal([200, 200, 200, 429, 429], Array.new(5) { ask("rb {attack}") })
    assert_equal(200, ask("rb another"))
  end

  def test_threads_are_counted_together
    throttle(Stint::RackAttackStore.new(limits, longest: 36_500 * DAY))
    assert_equal(3, Array.new(16) { Thread.new { ask("rb crowd") } }.map(&:value).count(200))
  end

  def test_no_decision_by_fail_mode_and_a_mistake_is_never_open
    errors = []
    nowhere = client(servers([UNDECIDED]).urls)
    throttle(Stint::RackAttackStore.new(nowhere, longest: 36_500 * DAY, on_error: errors.method(:<<)))
    fails { ask("rb k") }
    Rack::Attack.cache.store = Stint::RackAttackStore.new(nowhere, longest: 36_500 * DAY, fail: :open, on_error: errors.method(:<<))
    assert_equal([200] * 4, Array.new(4) { ask("rb k") })
    assert_equal(["internal"] * 5, errors.map(&:code))
    failure = {"code" => "permission_denied", "message" => "the token may not", "details" => [{"type" => "stint.v1.Failure", "value" => ""}]}
    refusing = client(servers([{"status" => 403, "body" => failure}]).urls)
    Rack::Attack.cache.store = Stint::RackAttackStore.new(refusing, longest: 36_500 * DAY, fail: :open)
    fails { ask("rb k") }
  end

  def test_what_would_be_a_trap_is_refused
    throttle(Stint::RackAttackStore.new(limits, longest: 60))
    assert_raises(ArgumentError) { ask("rb k") }
    store = Stint::RackAttackStore.new(limits)
    assert_raises(NotImplementedError) { store.read("k") }
    assert_raises(NotImplementedError) { store.write("k", 1, expires_in: 1) }
    [{fail: :maybe}, {longest: 0}].each { |wrong| assert_raises(ArgumentError) { Stint::RackAttackStore.new(limits, **wrong) } }
  end
end

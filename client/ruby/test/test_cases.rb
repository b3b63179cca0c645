# frozen_string_literal: true

require_relative "harness"

# The cases that the clients of all languages pass: client/testdata/cases.json says what its fields are.
class CasesTest < Minitest::Test
  include Harness

  NAMES = {"deniedBy" => :denied_by, "retryAfterSeconds" => :retry_after_seconds, "shadowDenied" => :shadow_denied,
           "holdId" => :hold_id, "maybeApplied" => :maybe_applied?, "noDecision" => :no_decision?, "noRoom" => :no_room?,
           "unknownKey" => :unknown_key?}.freeze

  JSON.parse(File.read(File.join(ROOT, "client/testdata/cases.json")))["cases"].each do |c|
    define_method("test_#{c["name"]}") do
      script = servers(c["answers"], nodes: c.fetch("nodes", 1))
      addresses = Array.new(c.fetch("refused", 0)) { refused } + script.urls
      limits = later(Stint.new(addresses, timeout: c.fetch("timeoutMs", 120_000) / 1000.0))
      assert_equal(c["want"], named(c["want"], answer_of(limits, c["do"])))
      assert_equal(c["asked"], script.requests.length)
      assert_operator(script.requests.map(&:last).uniq.length, :<=, 1)
    end
  end

  private

  # Makes the case's call, and returns the part of the answer that the case may want.
  def answer_of(limits, call)
    id = call["id"]
    case call["op"]
    when "get" then {"limits" => limits.get(call["entries"])}
    when "settle" then {"decision" => limits.settle(call["holdId"], call["action"], decision_id: call["decisionId"])}
    when "reserve" then {"decision" => limits.reserve(call["entries"], ttl: call["ttlMs"] / 1000.0, idempotency_id: id)}
    when "check" then {"decision" => limits.check(call["entries"], idempotency_id: id)}
    end
  rescue Stint::Error => e
    {"error" => e}
  end

  # Keeps of an answer what the case names.
  def named(want, got)
    case want
    when Hash
      want.to_h { |name, value| [name, named(value, got.is_a?(Hash) ? got[name] : got.public_send(NAMES.fetch(name, name)))] }
    when Array
      want.length == got.length ? want.zip(got).map { |a, b| named(a, b) } : got
    else
      got
    end
  end
end

# frozen_string_literal: true

require_relative "stint"

class Stint
  # A store of Rack::Attack, for its throttles and tracks: hits of all processes are counted in the cluster.
  #
  #   Rack::Attack.cache.store = Stint::RackAttackStore.new(limits)
  #
  # Rack::Attack divides time by its own clock and names each period in the key, so a count only has to live long enough: longest is
  # the longest period of a throttle, in seconds. fail, while the cluster gives no decision: :closed raises the Stint::Error, :open
  # counts nothing, so that nothing is throttled; a key without room and a mistake are raised in both modes. on_error hears every
  # failure to decide. Bans (Fail2Ban, Allow2Ban) are not there: take a policy with a lockout.
  class RackAttackStore
    QUOTA_MOST = 2**53 # the store counts, and its caller compares
    private_constant :QUOTA_MOST

    def initialize(limits, longest: 86_400, fail: :closed, on_error: nil, timeout: nil)
      raise ArgumentError, "stint: fail must be :closed or :open" unless %i[closed open].include?(fail)
      raise ArgumentError, "stint: longest must be a whole number of seconds" unless longest.is_a?(Integer) && longest.positive?

      @limits = limits
      @longest = longest
      @fail = fail
      @on_error = on_error
      @timeout = timeout
    end

    # Counts hits, and returns those of the period with them.
    def increment(key, amount = 1, expires_in:)
      # Rack::Attack adds a second to what is left of a period.
      raise ArgumentError, "stint: a throttle has a longer period than longest: #{@longest} s" if expires_in > @longest + 1

      window = {name: "window", quota: QUOTA_MOST.to_s, fixedWindow: {period: "#{@longest + 1}s", anchor: "ANCHOR_FIRST_HIT"}}
      entry = {policy: "rack-attack", key: Stint.safe_key(key), cost: amount, limits: [window]}
      @limits.check(entry, mode: :count, timeout: @timeout).limits[0].used
    rescue Error => e
      @on_error&.call(e) if e.no_decision? || e.no_room?
      raise if !e.no_decision? || @fail == :closed

      0
    end

    %i[read write delete].each do |name|
      define_method(name) do |*, **|
        raise NotImplementedError, "stint: this store counts and keeps no bans: take a policy with a lockout"
      end
    end
  end
end

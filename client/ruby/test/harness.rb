# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "minitest/mock"
require "net/http"
require "openssl"
require "socket"
require "tmpdir"
require_relative "../stint"

# What the tests share: a real node, and servers that fail in one way each.
module Harness
  ROOT = File.expand_path("../../..", __dir__)
  POLICIES = File.join(ROOT, "client/js/test/policies.yaml")

  # A node on a free port.
  class Node
    attr_reader :url

    def initialize(*flags, policies: POLICIES)
      binary = ENV["STINT_BINARY"] or raise "STINT_BINARY is not set: make ruby builds the program stint"
      @output = IO.popen([binary, "serve", "--dev", "--policies", policies, "--api-addr", "127.0.0.1:0", *flags], err: %i[child out])
      said = +""
      until @url
        line = @output.gets or raise "stint ended: #{said}"
        said << line
        @url = line[/stint is ready at (https?:\S+)/, 1]
      end
      @drain = Thread.new { @output.read }
    end

    def close
      Process.kill(:TERM, @output.pid)
      @drain.join
      @output.close
    end
  end

  # Servers that give scripted answers, in the order of the requests and whichever of them is asked; the last answer is repeated.
  #
  # An answer is {"status", "body"}, perhaps with "chunked"; "drop": the connection ends after the request was read; "pass": the
  # target's; "lost": the target has counted, and the connection ends; "hang": it has counted, and no answer comes; "last": its
  # answer, and the connection ends without a word.
  class Servers
    attr_reader :urls, :requests, :connections

    def initialize(answers, nodes: 1, target: nil)
      @answers = answers
      @target = target
      @requests = []
      @connections = 0
      @lock = Mutex.new
      @listeners = Array.new(nodes) { TCPServer.new("127.0.0.1", 0) }
      @urls = @listeners.map { |listener| "http://127.0.0.1:#{listener.addr[1]}" }
      @threads = @listeners.map { |listener| Thread.new { accept(listener) } }
      @served = []
    end

    def close
      (@threads + @served).each(&:kill).each(&:join)
      @listeners.each(&:close)
    end

    private

    def accept(listener)
      loop do
        connection = listener.accept
        @lock.synchronize { @connections += 1 }
        @served << Thread.new { serve(connection) }
      end
    end

    def serve(connection)
      while (first = connection.gets("\r\n"))
        headers = {}
        while (line = connection.gets("\r\n").chomp) != ""
          name, value = line.split(": ", 2)
          headers[name.downcase] = value
        end
        body = connection.read(headers["content-length"].to_i)
        answer = @lock.synchronize do
          @requests << [headers, JSON.parse(body)]
          @answers[[@requests.length, @answers.length].min - 1]
        end
        break unless answered(connection, answer, first.split[1], body)
      end
    rescue SystemCallError
      nil # the client has gone
    ensure
      connection.close
    end

    def answered(connection, answer, path, body)
      if answer.is_a?(Hash)
        status = answer["status"]
        text = answer["body"].is_a?(String) ? answer["body"] : JSON.generate(answer["body"])
      elsif answer != "drop"
        response = Net::HTTP.post(URI(@target + path), body, "Content-Type" => "application/json")
        status = response.code
        text = response.body
      end
      sleep if answer == "hang"
      return false if %w[drop lost].include?(answer)

      connection.write(message(status, text, answer))
      answer != "last"
    end

    def message(status, text, answer)
      unless answer.is_a?(Hash) && answer["chunked"]
        return "HTTP/1.1 #{status} X\r\nContent-Length: #{text.bytesize}\r\n\r\n#{text}"
      end

      chunks = text.scan(/.{1,7}/m).map { |part| "#{part.bytesize.to_s(16)};x=y\r\n#{part}\r\n" }.join
      "HTTP/1.1 103 X\r\nLink: x\r\n\r\nHTTP/1.1 #{status} X\r\nTransfer-Encoding: chunked\r\n\r\n#{chunks}0\r\nTrailer: x\r\n\r\n"
    end
  end

  # What a cluster says that cannot decide. It is not asked again: no test has to wait for the end of a time.
  UNDECIDED = {"status" => 500, "body" => {"code" => "internal", "message" => "cannot decide",
                                           "details" => [{"type" => "stint.v1.Failure", "value" => ""}]}}.freeze

  # The node that all tests of a file share.
  def self.node = @node ||= Node.new.tap { |node| Minitest.after_run { node.close } }

  def node = Harness.node

  def teardown
    @closers&.reverse_each(&:close)
  end

  # Closes what a test has made when it ends.
  def later(closer)
    (@closers ||= []) << closer
    closer
  end

  def servers(answers, **options) = later(Servers.new(answers, **options))

  # A client that begins at the first of its addresses.
  def client(addresses, **options)
    later(Stint.new(addresses, timeout: 60, **options)).tap { |made| made.instance_variable_set(:@next, 0) }
  end

  def limits = @limits ||= client([node.url])

  def used(policy, key) = limits.get({policy: policy, key: key})[0].used

  # A base URL at which nobody listens.
  def refused
    listener = TCPServer.new("127.0.0.1", 0)
    "http://127.0.0.1:#{listener.addr[1]}"
  ensure
    listener.close
  end

  def fails(&call) = assert_raises(Stint::Error, &call)
end

package main

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/descriptorpb"
)

// document describes the services. Messages are listed by name, and only if a procedure uses them.
func document(services []*protogen.Service) *yaml.Node {
	slices.SortFunc(services, func(a, b *protogen.Service) int { return cmp.Compare(a.Desc.Name(), b.Desc.Name()) })
	s := schemas{}
	tags, paths := list(), object()
	for _, service := range services {
		name := string(service.Desc.Name())
		tags.Content = append(tags.Content, object("name", text(name), "description", comment(service.Comments)))
		for _, method := range service.Methods {
			put(paths, "/"+string(service.Desc.FullName())+"/"+string(method.Desc.Name()), s.procedure(name, method))
		}
	}
	for _, p := range probes {
		put(paths, p.path, object("get", p.operation()))
	}
	return object(
		"openapi", text("3.1.0"),
		"info", object("title", text("stint"), "version", text("v1"), "license",
			object("name", text("Apache-2.0"), "identifier", text("Apache-2.0")),
			"description", text("Rate limits and quotas, counted exactly. Every procedure is a POST of JSON, "+
				"as the Connect protocol has it. 64-bit numbers are strings. A denial is an answer and no error.")),
		"servers", list(object("url", text("http://127.0.0.1:7400"))),
		"security", list(object("token", list()), object()),
		"tags", tags,
		"paths", paths,
		"components", object(
			"securitySchemes", object("token", object("type", text("http"), "scheme", text("bearer"),
				"description", text("A token of `stint token create`. "+
					"None is needed on loopback before there is the first one."))),
			"schemas", s.components()),
	)
}

// procedure describes a call: a POST, and a GET beside it if the call changes nothing.
func (s schemas) procedure(service string, method *protogen.Method) *yaml.Node {
	name := string(method.Desc.Name())
	streams := method.Desc.IsStreamingClient() || method.Desc.IsStreamingServer()
	kind, more := "application/json", ""
	if streams {
		kind, more = "application/connect+json", " A stream: each message is framed as the Connect protocol has it."
	}
	about := comment(method.Comments)
	about.Value += more
	answers := object(
		"200", object("description", text("The answer."), "content",
			object(kind, object("schema", s.message(method.Output)))),
		"default", object("description", text("No answer: what failed, and whether the request may have been counted."),
			"content", object("application/json", object("schema", ref("Error")))))
	operation := func(id string) *yaml.Node {
		return object("tags", list(text(service)), "operationId", text(service+"_"+id), "description", about)
	}
	post := operation(name)
	put(post, "parameters", list(object("name", text("Connect-Timeout-Ms"), "in", text("header"),
		"description", text("How long the caller waits, in milliseconds."), "schema",
		object("type", text("integer"), "minimum", number("1")))))
	put(post, "requestBody", object("required", flag(true), "content",
		object(kind, object("schema", s.message(method.Input)))))
	put(post, "responses", answers)
	item := object("post", post)
	level := method.Desc.Options().(*descriptorpb.MethodOptions).GetIdempotencyLevel()
	if level == descriptorpb.MethodOptions_NO_SIDE_EFFECTS && !streams {
		get := operation(name + "_GET")
		fixed := func(name, value string) *yaml.Node {
			return object("name", text(name), "in", text("query"), "required", flag(true), "schema",
				object("const", text(value)))
		}
		put(get, "parameters", list(fixed("connect", "v1"), fixed("encoding", "json"),
			object("name", text("message"), "in", text("query"), "required", flag(true),
				"content", object("application/json", object("schema", s.message(method.Input))))))
		put(get, "responses", answers)
		put(item, "get", get)
	}
	return item
}

// probe is a path that is no procedure.
type probe struct{ path, kind, about string }

var probes = []probe{
	{"/healthz", "text/plain", "Whether the process is alive. Needs no token."},
	{"/readyz", "text/plain", "Whether the node can serve or forward every shard. Needs no token."},
	{"/metrics", "text/plain", "Metrics for Prometheus. Needs the operation observe."},
	{"/openapi.yaml", "application/yaml", "This document."},
}

func (p probe) operation() *yaml.Node {
	return object("operationId", text(p.path[1:]), "description", text(p.about), "responses", object(
		"200", object("description", text("The answer."), "content",
			object(p.kind, object("schema", object("type", text("string"))))),
		"default", object("description", text("No: the text says why."))))
}

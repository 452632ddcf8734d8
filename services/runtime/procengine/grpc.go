package procengine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/podfall/podfall/proto"
)

// The health service of gRPC (grpc.health.v1): one unary call with one field each way.
const (
	healthCheck   = "/grpc.health.v1.Health/Check"
	fieldService  = 1
	fieldServing  = 1
	frameHeader   = 5 // a byte that says whether the message is compressed, and its length
	maxHealthBody = 1 << 10
)

var errHealth = errors.New("that is no answer of a gRPC health service")

// reachGRPC calls a program's health service; the response's Code is the serving status.
func reachGRPC(ctx context.Context, address, service string) (*proto.ReachResponse, error) {
	var question []byte
	if service != "" {
		question = protowire.AppendString(protowire.AppendTag(nil, fieldService, protowire.BytesType), service)
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(question)))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+healthCheck, bytes.NewReader(append(frame, question...)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	transport := &http.Transport{DisableKeepAlives: true, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxHealthBody))
	if err != nil {
		return nil, err
	}
	header := func(name string) string { return cmp.Or(answer.Trailer.Get(name), answer.Header.Get(name)) }
	if status := header("Grpc-Status"); status != "" && status != "0" {
		return nil, fmt.Errorf("rpc error: code = %s desc = %s", status, header("Grpc-Message"))
	}
	serving, err := servingStatus(body)
	return &proto.ReachResponse{Code: serving}, err
}

// servingStatus parses a HealthCheckResponse. An absent field is 0, UNKNOWN.
func servingStatus(body []byte) (int32, error) {
	if len(body) < frameHeader || body[0] != 0 {
		return 0, errHealth
	}
	for rest := body[frameHeader:]; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return 0, errHealth
		}
		rest = rest[n:]
		if number == fieldServing && kind == protowire.VarintType {
			status, n := protowire.ConsumeVarint(rest)
			if n < 0 {
				return 0, errHealth
			}
			return int32(status), nil
		}
		if n = protowire.ConsumeFieldValue(number, kind, rest); n < 0 {
			return 0, errHealth
		}
		rest = rest[n:]
	}
	return 0, nil
}

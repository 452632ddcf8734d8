package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/homeport"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/gateway"
)

func gatewayCommand() *cli.Command {
	return &cli.Command{
		Name: "gateway", Usage: "the Kubernetes API over HTTPS, for kubectl and other clients", Category: "processes",
		Flags: serviceFlags(
			busFlag(),
			&cli.StringFlag{Name: "secrets", Required: true, Usage: "the `DIRECTORY` with tls.crt, tls.key and token"},
			&cli.StringFlag{Name: "address", Usage: "the `FILE` to write the gateway's URL to; if it exists, listen there again"},
			&cli.StringFlag{Name: "listen", Value: loopback, Usage: "the `ADDRESS` to listen on"},
			&cli.IntFlag{Name: "port", Usage: "the `PORT` to listen on; 0 means that of --address, or a free one"},
		),
		Action: func(c *cli.Context) error {
			s, err := newService(c, string(proto.Gateway))
			if err != nil {
				return err
			}
			secrets, err := cluster.ReadGatewaySecrets(c.String("secrets"))
			if err != nil {
				return err
			}
			certificate, err := tls.X509KeyPair(secrets.Server.Certificate, secrets.Server.Key)
			if err != nil {
				return fmt.Errorf("%s: %w", c.String("secrets"), err)
			}
			conn, err := s.dial(c.Context, c.String("bus"), c.String("keys"), proto.Gateway)
			if err != nil {
				return err
			}
			defer conn.Close()
			listener, err := s.listen(c)
			if err != nil {
				return err
			}
			return s.serve(c, func(ctx context.Context, agent *mgmt.Agent) error {
				return runPublishing(ctx, c.String("address"), s, func(ctx context.Context, publish func(any) error) error {
					return gateway.Run(ctx, gateway.Config{
						Bus: conn, Listener: listener, Token: secrets.Token, Clock: s.clock, Compat: s.compat, Boot: s.boot,
						TLS:  &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
						Seed: randomSeed(), Log: s.log, Faults: s.managed.faults, Processes: processes{agent},
						Ready: func(url string) { _ = publish(keepHost(c.String("address"), url)) },
					})
				})
			})
		},
	}
}

const loopback = "127.0.0.1"

// listen opens the gateway's port: the requested one, else the previous one, else a free one.
func (s service) listen(c *cli.Context) (net.Listener, error) {
	port := c.Int("port")
	if port < 0 || port > 65535 {
		return nil, usageError("--port %d: want 0 to 65535", port)
	}
	if port == 0 {
		var err error
		if port, err = previousPort(c.String("address")); err != nil {
			return nil, err
		}
	}
	host := c.String("listen")
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		s.log.WarnContext(c.Context, "others than this machine may reach the gateway; whoever has the token may do everything", "listen", host)
	}
	return homeport.Listen(c.Context, host, port)
}

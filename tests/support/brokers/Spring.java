import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.websocket.server.WsSci;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.simp.config.MessageBrokerRegistry;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.socket.config.annotation.EnableWebSocketMessageBroker;
import org.springframework.web.socket.config.annotation.StompEndpointRegistry;
import org.springframework.web.socket.config.annotation.WebSocketMessageBrokerConfigurer;

/**
 * A web application of Spring with STOMP over WebSocket at /stomp, as the guides of Spring set it up.
 *
 * Arguments: the port; for the relay also the port, login and password of a broker with STOMP on loopback. Without
 * them it has Spring's simple broker.
 */
public class Spring {
    static String[] arguments;

    @Configuration(proxyBeanMethods = false)
    @EnableWebSocketMessageBroker
    public static class Application implements WebSocketMessageBrokerConfigurer {
        @Override
        public void registerStompEndpoints(StompEndpointRegistry registry) {
            registry.addEndpoint("/stomp");
        }

        @Override
        public void configureMessageBroker(MessageBrokerRegistry registry) {
            if (arguments.length == 1) {
                ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
                scheduler.initialize();
                registry.enableSimpleBroker("/topic", "/queue").setTaskScheduler(scheduler);
                return;
            }
            registry.enableStompBrokerRelay("/topic", "/queue", "/exchange", "/amq")
                    .setRelayHost("127.0.0.1")
                    .setRelayPort(Integer.parseInt(arguments[1]))
                    .setVirtualHost("/")
                    .setClientLogin(arguments[2])
                    .setClientPasscode(arguments[3])
                    .setSystemLogin(arguments[2])
                    .setSystemPasscode(arguments[3]);
        }
    }

    public static void main(String[] given) throws Exception {
        arguments = given;
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
        tomcat.setPort(Integer.parseInt(arguments[0]));
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        Context context = tomcat.addContext("", null);
        context.addServletContainerInitializer(new WsSci(), null);
        AnnotationConfigWebApplicationContext application = new AnnotationConfigWebApplicationContext();
        application.register(Application.class);
        Tomcat.addServlet(context, "application", new DispatcherServlet(application)).setLoadOnStartup(1);
        context.addServletMappingDecoded("/", "application");
        tomcat.start();
        tomcat.getServer().await();
    }
}

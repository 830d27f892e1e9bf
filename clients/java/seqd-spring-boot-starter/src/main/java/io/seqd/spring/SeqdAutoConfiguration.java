package io.seqd.spring;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import io.seqd.client.Client;
import io.seqd.client.GeneratorOptions;
import io.seqd.client.IdGenerator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** A client, a generator that returns its worker when the application ends, and MyBatis-Plus's generator. */
@AutoConfiguration(beforeName = {
    "com.baomidou.mybatisplus.autoconfigure.IdentifierGeneratorAutoConfiguration",
    "com.baomidou.mybatisplus.autoconfigure.MybatisPlusAutoConfiguration"
})
@ConditionalOnProperty(name = "seqd.enabled", matchIfMissing = true)
@EnableConfigurationProperties(SeqdProperties.class)
public class SeqdAutoConfiguration {
    /** The client of the cluster. */
    @Bean
    @ConditionalOnMissingBean
    public Client seqdClient(SeqdProperties properties) {
        Client.Builder builder = Client.builder(properties.endpoints()).token(properties.token())
                .timeout(properties.timeout()).ca(properties.ca())
                .certificate(properties.certificate(), properties.key());
        return (properties.tokenFile() == null ? builder : builder.tokenFile(properties.tokenFile())).build();
    }

    /** The generator. It leases its worker in the background, and an insert waits for that, or with ready the start. */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    public IdGenerator seqdIdGenerator(Client client, SeqdProperties properties) {
        var options = GeneratorOptions.ofOwner(properties.ownerOrHost()).layout(properties.layout())
                .datacenter(properties.datacenter()).patience(properties.patience());
        IdGenerator generator = new IdGenerator(client, options);
        if (properties.ready()) {
            try {
                generator.ready();
            } catch (RuntimeException notReady) {
                generator.close();
                throw notReady;
            }
        }
        return generator;
    }

    /** In a class of its own, which is not loaded without MyBatis-Plus. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(IdentifierGenerator.class)
    static class MybatisPlus {
        /** Makes the IDs of {@code @TableId(type = IdType.ASSIGN_ID)}. */
        @Bean
        @ConditionalOnMissingBean(IdentifierGenerator.class)
        IdentifierGenerator seqdIdentifierGenerator(IdGenerator generator) {
            return entity -> generator.id();
        }
    }
}
